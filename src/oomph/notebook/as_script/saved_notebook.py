"""Saves a running notebook with its outputs, after each cell and every few seconds, replacing the file atomically."""

from __future__ import annotations

import contextlib
import glob
import os
import threading
import time
from pathlib import Path
from typing import Any

from oomph.files.notebook_document import NotANotebookError, code_cells, is_skipped, read_notebook
from oomph.files.opening import reaching
from oomph.notebook.as_script.outputs import CellOutputs, Output, as_file
from oomph.script.session import say

_SECONDS = 10.0
_PAUSES = 10
"""The least pause after saving, as a multiple of the time that it took: a notebook of thousands of cells takes long."""


class SavedNotebook:
    """A notebook, the outputs of its cells, and the file that both are saved to.

    Args:
        document: the notebook, whose outputs are replaced.
        path: the file to save to, or None to save nothing.
        goes_on: True if the file may have outputs of an earlier attempt, each of which stays until its cell runs again.
    """

    def __init__(self, document: dict[str, Any], path: Path | None, goes_on: bool = False) -> None:
        self._document, self._pid = document, os.getpid()
        self._path = None if path is None else Path(os.path.realpath(path))  # a link stays, and its file is replaced
        self._running: tuple[dict[str, Any], CellOutputs] | None = None
        self._displays: dict[str, list[Output]] = {}
        self._saved, self._complained = b"", False
        self._next = 0.0
        """The time, on the monotonic clock, from which on a cell that has ended is saved at once."""
        self._lock, self._over = threading.Lock(), threading.Event()
        self._forget(goes_on)
        if self._path is not None:
            _remove_partial(self._path)
            self.save()
            threading.Thread(target=self._save_regularly, name="oomph-notebook", daemon=True).start()

    def begin(self, cell: dict[str, Any], count: int) -> CellOutputs:
        """Clear the outputs of a cell that is about to run, and return an object to collect new ones."""
        outputs = CellOutputs(self._displays)
        cell["execution_count"] = count
        self._running = cell, outputs
        return outputs

    def end(self) -> None:
        """Save the last cell, and stop saving."""
        self.save()
        self._over.set()

    @property
    def is_saved(self) -> bool:
        """True if the notebook has been saved at least once."""
        return bool(self._saved)

    def save_soon(self) -> None:
        """Save the notebook after a cell, or within a few seconds if saving would otherwise take much of the time."""
        if time.monotonic() >= self._next:
            self.save()
        else:
            with self._lock:
                self._collect()

    def save(self) -> None:
        """Save the notebook if it has changed. The notebook runs on if that fails, which is reported once."""
        if self._path is None or os.getpid() != self._pid:  # a fork of the notebook has its own outputs
            return
        with self._lock:
            began = time.monotonic()
            self._collect()
            try:
                content = as_file(self._document)
                if content != self._saved:
                    _replace(self._path, content)
                    self._saved = content
            except Exception as error:  # a full disk, or a display that is no JSON
                self._complain(error)
            now = time.monotonic()
            self._next = now + (now - began) * _PAUSES

    def _collect(self) -> None:
        """Put what the running cell has shown so far into the notebook."""
        if self._running is not None:
            cell, outputs = self._running
            cell["outputs"] = outputs.as_list()

    def _complain(self, error: Exception) -> None:
        if not self._complained:
            self._complained = True
            reason = error.strerror if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
            say(f"{self._path} cannot be saved: {reason}; the notebook runs on")

    def _save_regularly(self) -> None:
        while not self._over.wait(_SECONDS):
            self.save()

    def _forget(self, goes_on: bool) -> None:
        """Remove the outputs of cells that will run, except those that an earlier attempt saved for the same source."""
        earlier = _outputs_in(self._path) if goes_on and self._path is not None else []
        for number, cell in enumerate(code_cells(self._document)):
            if is_skipped(cell):
                continue
            source, count, outputs = earlier[number] if number < len(earlier) else (None, None, [])
            is_same = source == cell["source"]
            cell["execution_count"], cell["outputs"] = (count, outputs) if is_same else (None, [])


def _outputs_in(path: Path) -> list[tuple[Any, Any, list[Output]]]:
    """Return the source, count and outputs of each code cell in a file, or an empty list if it cannot be read."""
    try:
        cells = code_cells(read_notebook(path))
        return [(cell["source"], cell.get("execution_count"), cell.get("outputs", [])) for cell in cells]
    except (OSError, NotANotebookError):
        return []


def _partial(path: Path, pid: int | str) -> str:
    return f".{path.name}.{pid}.partial"


def _replace(path: Path, content: bytes) -> None:
    """Replace the file atomically: readers see either the old notebook or the new one."""
    partial = path.with_name(_partial(path, os.getpid()))
    with reaching():
        try:
            with partial.open("wb") as file:
                file.write(content)
            with contextlib.suppress(OSError):  # a new file, or one of another user
                partial.chmod(path.stat().st_mode)
            os.replace(partial, path)
        except BaseException:  # a full disk: what has been written takes the last of its room
            partial.unlink(missing_ok=True)
            raise


def _remove_partial(path: Path) -> None:
    """Remove the partial files of attempts that were killed while they were saving."""
    for left in path.parent.glob(_partial(path.with_name(glob.escape(path.name)), "*")):
        try:
            os.kill(int(left.suffixes[-2][1:]), 0)
        except ProcessLookupError:
            left.unlink(missing_ok=True)
        except (OSError, ValueError, IndexError):
            pass  # still being written, or not ours
