"""Explains the last error of a kernel in words."""

from __future__ import annotations

from oomph.errors import IsolatedError
from oomph.explain.diagnose import diagnose
from oomph.explain.matching.named_fault import Diagnosis
from oomph.explain.render import as_text


def explained(error: BaseException | None) -> str:
    """Return the diagnoses of an error as text, or a sentence if there is no error."""
    if error is None:
        return "no cell of this kernel has raised an error yet"
    return as_text(_diagnoses(error), f"{type(error).__name__} in this kernel").rstrip()


def _diagnoses(error: BaseException) -> tuple[Diagnosis, ...]:
    """Return the diagnoses of an error; those of another process were made where its evidence was."""
    if isinstance(error, IsolatedError) and error.outcome is not None:
        found: tuple[Diagnosis, ...] = error.outcome.diagnoses
        return found
    return diagnose(error)
