"""Runs a notebook's code cells one after another in the script's own process, like the statements of a script.

To everything else in oomph, the notebook is the script: the process owns the attempt, an exception ends it with exit
code 1 and a traceback on stderr, and a restart runs it again from its first cell.
"""

from __future__ import annotations

import functools
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

from oomph.errors import UsageError
from oomph.files.notebook_document import (
    NotANotebookError,
    code_cells,
    is_expected_to_raise,
    is_skipped,
    read_notebook,
    text_of,
)
from oomph.notebook.as_script.saved_notebook import SavedNotebook
from oomph.script.session import current, say
from oomph.terminal.amounts import counted

if TYPE_CHECKING:
    from oomph.notebook.as_script.cell_shell import CellShell

SAVE_AS = "--out"
_LAST_ERROR = ("last_exc", "last_type", "last_value", "last_traceback")
"""The attributes of `sys` for the exception that ended a script. IPython sets them for an exception in any cell."""
INSTALL = 'pip install "oomph[notebook]"'


def main(words: Sequence[str]) -> None:
    """Run a notebook. Like a script, it ends by returning or with an exception.

    Args:
        words: `--out` and the file to save to, if any; the notebook; its arguments.
    """
    out = Path(words[1]).absolute() if words[0] == SAVE_AS else None
    path, *arguments = words[2:] if out is not None else words
    try:
        document = read_notebook(Path(path))
    except (NotANotebookError, OSError) as error:
        _refuse(f"{path} {error}" if isinstance(error, NotANotebookError) else f"{path}: {error.strerror}")
    try:
        from oomph.notebook.as_script.cell_shell import CellShell
    except ImportError as error:
        _refuse(f"{sys.executable} cannot run a notebook: {error}; install what is missing: {INSTALL}")
    folder = os.path.dirname(os.path.abspath(path))
    os.chdir(folder)
    sys.path.insert(0, "")
    sys.argv = [os.path.basename(path), *arguments]
    session = current()
    saved = SavedNotebook(document, out, goes_on=session is not None and session.handover.attempt > 1)
    if out is not None and saved.is_saved:
        cells = counted(sum(not is_skipped(cell) for cell in code_cells(document)), "cell")
        say(f"the outputs of {cells} are saved to {words[1]} as they arrive")
    _end(_run(document, saved, CellShell.start()))


def _run(document: dict[str, Any], saved: SavedNotebook, shell: CellShell) -> BaseException | None:
    """Run the cells, and return the exception that ended the notebook, if any."""
    error = None
    for cell in code_cells(document):
        if is_skipped(cell):
            continue
        outputs = saved.begin(cell, shell.execution_count)
        with shell.filling(outputs):
            error = shell.run(text_of(cell["source"]), cell.get("id"))
        saved.save_soon()
        if error is not None and not (is_expected_to_raise(cell) and _is_ordinary(error)):
            break
        error = None
    saved.end()
    return error


def _is_ordinary(error: BaseException) -> bool:
    """True if a cell may be expected to raise the error, which rules out an interrupt."""
    return isinstance(error, (Exception, SystemExit))


def _end(error: BaseException | None) -> None:
    """End like a script that raises this exception, if any. The traceback on stderr starts in the cell."""
    for name in _LAST_ERROR:
        vars(sys).pop(name, None)
    if error is None:
        return
    hook = traceback.print_exception if sys.excepthook is sys.__excepthook__ else sys.excepthook
    sys.excepthook = functools.partial(_show, hook, error.__traceback__)
    raise error


def _show(
    hook: Callable[..., None], of_cell: TracebackType | None, kind: type[BaseException], error: BaseException, _: object
) -> None:
    """Show an exception through `hook`, without the frames of oomph and IPython around the cell."""
    hook(kind, error.with_traceback(of_cell), of_cell)


def _refuse(reason: str) -> NoReturn:
    say(reason)
    raise SystemExit(UsageError.exit_code)
