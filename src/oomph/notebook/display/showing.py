"""Shows oomph's reports in the cells of a notebook: the story of each fit is one output, updated in place.

stderr, which JupyterLab shows in red, is left to warnings; TensorFlow's report of a failed allocation goes to a file.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

from oomph.files.opening import OwnFile
from oomph.notebook.display.allocator_reports import AllocatorReports
from oomph.notebook.display.cell_display import CellDisplay, running_cell
from oomph.notebook.display.fit_story import FitStory
from oomph.run.supervisor.native_reports import kept_in_words
from oomph.script import shell
from oomph.script.guarded_trainings import observe
from oomph.script.session import Session, say, speak_through, warn

_showing: _Showing | None = None


def begin(session: Session) -> None:
    """Show this process's reports in the cells that they belong to. Does nothing outside a Jupyter kernel."""
    global _showing
    end()
    if shell.is_kernel():
        _showing = _Showing(shell.running(), session)


def end() -> None:
    """Print this process's reports on stderr again, and give stderr back to the kernel."""
    global _showing
    if _showing is not None:
        _showing.end()
        _showing = None


class _Showing:
    """Shows the reports of one session, from this process but not from its forks."""

    def __init__(self, running: Any, session: Session) -> None:
        self._shell, self._pid = running, os.getpid()
        self._lock = threading.RLock()  # Ctrl-C may be reported while a report is being shown
        self._display: CellDisplay | None = None
        self._story = FitStory()
        self._is_training = False
        self._reports = None if session.run_dir is None else self._reports_of(session.run_dir, session.handover.attempt)
        self._stop_observing = observe(self)
        speak_through(self._write)

    def training_begins(self) -> None:
        """Begin the story of a fit in the cell that runs it. Nothing is shown before the first report."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            self._is_training = True
            self._open()
        if self._reports is not None:
            self._reports.begin()

    def training_ends(self) -> None:
        """Give stderr back, but leave the story open for later reports about the fit."""
        if os.getpid() != self._pid:
            return
        if self._reports is not None:
            self._reports.end()
        with self._lock:
            self._is_training = False

    def end(self) -> None:
        """Stop showing reports."""
        speak_through(None)
        self._stop_observing()
        if self._reports is not None:
            self._reports.close()

    def _write(self, text: str) -> None:
        if os.getpid() != self._pid:
            warn(text)
            return
        with self._lock:
            display = self._display
            if display is None or self._is_of_another_cell(display):
                display = self._open()
            self._story = self._story.with_report(text)
            display.show(self._story.bundle())

    def _is_of_another_cell(self, display: CellDisplay) -> bool:
        """True if the report comes from a later cell. Reports from oomph's threads always belong to the last fit."""
        is_cell = threading.current_thread() is threading.main_thread()
        return is_cell and not self._is_training and running_cell(self._shell) != display.cell

    def _open(self) -> CellDisplay:
        self._display, self._story = CellDisplay(self._shell), FitStory()
        return self._display

    def _reports_of(self, run_dir: Path, attempt: int) -> AllocatorReports:
        name = f"stderr/{attempt}-memory.log"
        where = os.path.relpath(run_dir / name)
        return AllocatorReports(OwnFile(run_dir, name), lambda lines: say(kept_in_words(lines, where)))
