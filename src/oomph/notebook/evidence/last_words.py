"""Records evidence while a kernel lives, since a killed one can record nothing, and tells the next kernel how it died.

The next kernel of the same run directory calls `told` before its own `record`.
"""

from __future__ import annotations

import atexit
import faulthandler
import functools
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from oomph.files.opening import open_own, read_own
from oomph.journal.events import AttemptEnded, CellStarted, FitFinished, FitStarted, Interrupted, LoopSeen, Preempted
from oomph.journal.journal import Event, facts, last, read_journal
from oomph.notebook.evidence.inferred_death import Cause, InferredDeath, Traces, death_of, in_lines, is_worth_telling
from oomph.notebook.evidence.kernel_board import FOLDER, NO_CELL, KernelBoard, KernelState, newest_state, own_group
from oomph.process import available_memory
from oomph.process.process_identity import ProcessIdentity
from oomph.protocol.progress import read_progress
from oomph.script import shell
from oomph.script.session import Session
from oomph.terminal.message import shown_line

_EVERY_SECONDS = 1.0
_MOST_OF_A_STACK = 1 << 20
_LONGEST_LINE, _MOST_CELLS = 200, 500
_COUNTS_FIRST = (9, 8)
"""The first version of IPython that increases `execution_count` before it runs a cell (IPython pull request 15088)."""


# -- before -----------------------------------------------------------------------------------------------------------


def record(session: Session) -> Callable[[], None]:
    """Start recording evidence. Return a function that stops the recording and notes that the kernel did not die.

    Does nothing outside the owner process, without a run directory, or if the directory cannot be written to.
    """
    if session.run_dir is None or not session.owner:
        return lambda: None
    try:
        recorder = _Recorder(session, session.run_dir)
    except OSError:
        return lambda: None
    atexit.register(recorder.stop)
    os.register_at_fork(after_in_child=functools.partial(_in_fork, weakref.ref(recorder)))  # cannot be unregistered
    return recorder.stop


def _in_fork(recorder: weakref.ref[_Recorder]) -> None:
    living = recorder()
    if living is not None:
        living.leave_crashes_alone()


class _Recorder:
    """Updates the board once a second and at each cell, and keeps a file open for the stack of a crash."""

    def __init__(self, session: Session, run_dir: Path) -> None:
        self._session = session
        self._board = KernelBoard(run_dir, session.handover.attempt)
        self._stack = _enable_faulthandler(run_dir, session.handover.attempt)
        self._shell = shell.running()
        if self._shell is not None:
            self._look_back()
            self._shell.events.register("pre_run_cell", self._before_cell)
            self._shell.events.register("post_run_cell", self._after_cell)
        self._stopped = threading.Event()
        self._sampler = threading.Thread(target=self._sample, name="oomph-kernel-board", daemon=True)
        self._sampler.start()

    def stop(self) -> None:
        """Stop recording. Does nothing the second time, or in a fork, which may call this at its exit."""
        if self._stopped.is_set() or not self._is_here():
            return
        self._stopped.set()
        atexit.unregister(self.stop)
        if self._shell is not None:
            self._shell.events.unregister("pre_run_cell", self._before_cell)
            self._shell.events.unregister("post_run_cell", self._after_cell)
        if self._stack is not None:
            faulthandler.disable()
            os.close(self._stack)
        self._sampler.join(_EVERY_SECONDS)
        self._board.end()

    def leave_crashes_alone(self) -> None:
        """Keep the stack of a fork's crash out of the file, where it would pass for the kernel's."""
        if self._stack is not None and not self._stopped.is_set():
            faulthandler.disable()

    def _is_here(self) -> bool:
        return os.getpid() == self._session.pid

    def _sample(self) -> None:
        try:
            while not self._stopped.wait(_EVERY_SECONDS):
                self._board.sample()
        except ValueError:
            pass  # the board was closed during a slow sample

    def _look_back(self) -> None:
        """Record the cells so far, up to the one that enables oomph."""
        number, cells = _number_of_cell(self._shell), self._shell.history_manager.input_hist_raw
        for back, text in reversed(list(enumerate(reversed(cells[1:][-_MOST_CELLS:])))):
            if text:  # a kernel that replaces a dead one has blanks in place of the dead one's cells
                self._note(number - back, text)
        self._board.enter(number if cells[1:] else NO_CELL)  # IPython's configuration may enable oomph before any cell

    def _before_cell(self, info: Any) -> None:
        if self._is_here() and info.store_history:  # without it, the request is the front end's own
            number = _number_of_cell(self._shell)
            self._board.enter(number)
            self._note(number, info.raw_cell)

    def _after_cell(self, _: Any) -> None:
        if self._is_here():
            self._board.enter(NO_CELL)

    def _note(self, number: int, text: str) -> None:
        lines = (line.strip() for line in text.splitlines())
        self._session.journal.write(CellStarted(cell=number, line=next(filter(None, lines), "")[:_LONGEST_LINE]))


def _enable_faulthandler(run_dir: Path, attempt: int) -> int | None:
    """Have faulthandler write to a file. Return its descriptor, or None if that fails or faulthandler is in use."""
    if faulthandler.is_enabled():
        return None
    try:
        fd = open_own(run_dir, _stack_file(attempt), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    except OSError:
        return None
    faulthandler.enable(file=fd, all_threads=True)
    return fd


def _stack_file(attempt: int) -> str:
    return f"{FOLDER}/{attempt}.stack"


def _number_of_cell(running: Any) -> int:
    """Return the number of the running cell, which newer versions of IPython count before they run it."""
    counts_first: bool = sys.modules["IPython"].version_info[:2] >= _COUNTS_FIRST
    return int(running.execution_count) - counts_first


# -- after ------------------------------------------------------------------------------------------------------------


def told(run_dir: Path) -> list[str]:
    """Return at most three lines about the death of the last kernel of this run directory.

    The list is empty if that kernel is still running, ended cleanly, obeyed a signal to stop, has its exit code in the
    journal, or left nothing worth telling.
    """
    try:
        state = newest_state(run_dir)
        if state is None or state.ended or state.kernel.lives:
            return []
        traces = _traces(run_dir, state)
        death = death_of(traces) if traces is not None else None
        if traces is None or death is None or not is_worth_telling(traces, death):
            return []
        seconds_ago = (time.time_ns() - state.sample.unix_ns) / 1e9
        return [shown_line(line) for line in in_lines(traces, death, _fault(traces, death), seconds_ago)]
    except Exception:
        return []  # traces that cannot be read, or a fault page that fails to load, must not stop the kernel


def _traces(run_dir: Path, state: KernelState) -> Traces | None:
    """Read what the kernel left behind, or return None if the journal has its exit code or the signal it obeyed."""
    from oomph.explain.reading.kernel_log import oom_killed_at

    events = read_journal(run_dir, state.attempt)
    ended = last(events, AttemptEnded)
    if (ended is not None and ended.returncode is not None) or last(events, Preempted) is not None:
        return None
    progress = read_progress(run_dir)
    return Traces(
        state=state,
        here=ProcessIdentity.here(),
        oom_kills=available_memory.oom_kills(),
        group=own_group(),
        stack=_stack(run_dir, state.attempt),
        killed_at_ns=tuple(oom_killed_at(state.kernel.pid)),
        progress=progress if progress is not None and progress.attempt == state.attempt else None,
        has_cells=bool(facts(events, CellStarted)),
        in_training=_is_unfinished(events) or (state.cell != NO_CELL and bool(facts(events, LoopSeen))),
    )


def _is_unfinished(events: Sequence[Event]) -> bool:
    """True if any fit neither finished nor was interrupted by the user."""
    started = {fit.fit for fit in facts(events, FitStarted)}
    over = {fit.fit for fit in facts(events, FitFinished)} | {fit.fit for fit in facts(events, Interrupted)}
    return bool(started - over)


def _stack(run_dir: Path, attempt: int) -> str:
    try:
        return read_own(run_dir, _stack_file(attempt), _MOST_OF_A_STACK).decode(errors="replace")
    except OSError:
        return ""


_OF_MEMORY = (Cause.OOM_KILLED, Cause.PROBABLY_OOM_KILLED, Cause.PERHAPS_OOM_KILLED)


def _fault(traces: Traces, death: InferredDeath) -> str:
    """Return the name of the fault that the death shows and the command that explains it, or an empty string."""
    from oomph.explain.diagnose import diagnose_log
    from oomph.explain.evidence.evidence import Evidence

    if death.cause in _OF_MEMORY:
        ending = Evidence.of_exit(-9, 1)
    elif death.cause is Cause.CRASHED:
        ending = Evidence.of_exit(-death.signal, 0)
    else:
        return ""
    found = diagnose_log(traces.stack.encode(), [ending])
    return f"{found[0].name}, oomph explain {found[0].code}" if found else ""
