"""oomph keeps TensorFlow / Keras training alive through GPU errors.

Use it as a command on an unmodified script (`oomph run train.py`), or to explain a failure (`oomph explain LOG`).
Importing this package does not import TensorFlow, Keras or NumPy.
"""

from __future__ import annotations

TYPE_CHECKING = False  # not imported: `oomph.entry` runs first, and PYTHONPATH could replace what it imports
if TYPE_CHECKING:
    from typing import Any

__version__ = "0.1.0"

_PUBLIC = {
    "Diagnosis": "oomph.explain.matching.named_fault",
    "Evidence": "oomph.explain.evidence.evidence",
    "Fault": "oomph.explain.catalogue.fault",
    "Isolated": "oomph.process.isolation.isolate",
    "IsolatedError": "oomph.errors",
    "Monitor": "oomph.monitor.live.callback",
    "OomphError": "oomph.errors",
    "TrainingStoppedError": "oomph.errors",
    "check": "oomph.api.check_fit",
    "diagnose": "oomph.explain.diagnose",
    "disable": "oomph.notebook.enabling",
    "enable": "oomph.notebook.enabling",
    "guard": "oomph.api.guard",
    "isolate": "oomph.process.isolation.isolate",
    "load_ipython_extension": "oomph.notebook.enabling",
    "plan": "oomph.api.memory_plan",
    "map_batches": "oomph.api.map_batches",
    "read_journal": "oomph.journal.journal_reader",
    "steps": "oomph.api.steps",
    "unload_ipython_extension": "oomph.notebook.enabling",
}

__all__ = sorted([*_PUBLIC, "__version__"])


def __getattr__(name: str) -> Any:
    """Import public names on first use (PEP 562), so that start-up stays fast."""
    if name in _PUBLIC:
        import importlib

        return getattr(importlib.import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
