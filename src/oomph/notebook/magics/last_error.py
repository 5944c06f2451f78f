"""Explains the last error of a kernel in words."""

from __future__ import annotations

from oomph.errors import IsolatedError, OomphError
from oomph.explain.diagnose import diagnose
from oomph.explain.render import as_text


def explained(error: BaseException | None) -> str:
    """Return the diagnoses of an error as text, or a sentence if there is no error."""
    if error is None:
        return "no cell of this kernel has raised an error yet"
    if isinstance(error, IsolatedError) and error.outcome is not None:  # diagnosed in its own process
        return as_text(error.outcome.diagnoses, "the isolated cell").rstrip()
    if isinstance(error, OomphError):
        return str(error)  # it says itself what to do
    return as_text(diagnose(error), f"{type(error).__name__} in this kernel").rstrip()
