"""Explains the last error of a kernel in words."""

from __future__ import annotations

import re

from oomph.errors import IsolatedError, OomphError
from oomph.explain.diagnose import diagnose
from oomph.explain.render import as_text
from oomph.script.cells import site_at

_LINE_OF_CELL = r"(\S*[/\\]ipykernel_\d+[/\\]\d+\.py|<ipython-input-\d+-\w+>):(\d+)"


def explained(error: BaseException | None) -> str:
    """Return the diagnoses of an error as text, or a sentence if there is no error."""
    if error is None:
        return "no cell of this kernel has raised an error yet"
    if isinstance(error, IsolatedError) and error.outcome is not None:  # diagnosed in its own process
        return _with_cells(as_text(error.outcome.diagnoses, "the isolated cell"))
    if isinstance(error, OomphError):
        return str(error)  # it says itself what to do
    return _with_cells(as_text(diagnose(error), f"{type(error).__name__} in this kernel"))


def _with_cells(text: str) -> str:
    """Name lines of cells as other messages do, "cell [4], line 1", instead of by ipykernel's file."""
    return re.sub(_LINE_OF_CELL, lambda found: site_at(found[1], int(found[2])), text.rstrip())
