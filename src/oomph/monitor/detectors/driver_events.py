"""What the driver reports of a GPU as it happens: Xid errors above all. Pure.

Source: NVIDIA's Xid catalogue (`explain/catalogue/xid.csv`) says what each is called and what to do first. Those to
ignore are notices. Codes of a program's own faults belong to the pages of these.
"""

from __future__ import annotations

from collections.abc import Iterable

from oomph.explain.catalogue.xid import catalogue
from oomph.monitor.finding import Finding
from oomph.monitor.sample import GpuEvent, GpuSample
from oomph.monitor.window import Window

FAULTS = ("hardware-fault", "illegal-memory-access", "kernel-timeout")
EVERY = 0.0  # an event is in one sample only
_PAGES = {8: "kernel-timeout", 13: "illegal-memory-access", 31: "illegal-memory-access"}
_FALLEN_OFF_THE_BUS = 79
_FOLLOWS = {43, 45}
"""They end a program after another error, or when it is killed."""
_OTHER = {
    "ecc-double-bit": ("an uncorrected memory error: results may be wrong", "memory error"),
    "unavailable": ("the driver has taken it out of use", "unavailable"),
}


def find(window: Window) -> Iterable[Finding]:
    """The events of the newest sample."""
    for gpu in window.gpus():
        for event in gpu.events:
            if event.kind == "xid":
                yield _xid(gpu, event)
            elif event.kind in _OTHER:
                text, kind = _OTHER[event.kind]
                yield Finding("hardware-fault", gpu.title, text, "critical", {"source": event.source}, kind=kind)


def _xid(gpu: GpuSample, event: GpuEvent) -> Finding:
    code, row = event.code, catalogue().get(event.code)
    name = "" if row is None else f" ({row.mnemonic})"
    action = "" if row is None else row.action
    is_harmless = code in _FOLLOWS or (row is not None and row.immediate == "IGNORE")
    return Finding(
        _PAGES.get(code, "hardware-fault"),
        gpu.title,
        f"the driver reports Xid {code}{name}",
        "notice" if is_harmless else "critical" if row is not None else "warning",
        {"xid": code, "source": event.source, "text": event.text},
        f"NVIDIA's catalogue says: {action}" if action else "",
        kind="lost" if code == _FALLEN_OFF_THE_BUS else f"xid {code}",
    )
