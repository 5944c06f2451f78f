"""Session: the role that one of the script's processes plays in a run. Standard library only."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from oomph.files.opening import pin
from oomph.journal.events import ProcessStarted, UncaughtException
from oomph.journal.fact import Fact
from oomph.journal.journal import Journal
from oomph.process import undoing
from oomph.protocol.handover import Handover
from oomph.protocol.ownership import claim_ownership
from oomph.protocol.progress import Power, ProgressBoard
from oomph.protocol.python_stacks import StackWriter
from oomph.redaction.redaction import know_secrets
from oomph.script.ending import TrainingEnding
from oomph.script.pulse import Pulse, inherited
from oomph.terminal.message import PREFIX, shown_line

_MESSAGE_CHARACTERS = 2000


@dataclass(frozen=True)
class Session:
    """Everything that code in the script process needs to take part in the run."""

    handover: Handover
    journal: Journal
    owner: bool
    """True in the script's main process, which is the only one that is checkpointed and resumed."""
    role: str
    """"script" for the owner, or "worker<pid>" for the processes that it starts."""
    pid: int
    board: ProgressBoard | None
    """The progress board, or None in workers and in runs without a directory."""
    run_dir: Path | None
    pulse: Pulse = field(default_factory=Pulse)
    """Sends heartbeats to the supervisor, except from workers."""
    ending: TrainingEnding | None = None
    """The way in which a training that must not go on ends here, or None in a script, whose process exits."""
    execution: Callable[[], int] | None = None
    """Returns the number of the cell execution that is running; None in a script, which runs once."""

    @property
    def owns_the_group(self) -> bool:
        """True if the whole process group belongs to the script, so that Ctrl-C must be passed on to it."""
        return self.ending is None or self.ending.owns_the_group

    def say(self, text: str) -> None:
        """Report an event, on stderr unless `speak_through` was called. Never raises."""
        say(text)

    def warn(self, text: str) -> None:
        """Report a problem that the user should act on, always on stderr. Never raises."""
        warn(text)

    def is_owner_now(self) -> bool:
        """True in the owner process itself, but not in its forks, which inherit this object."""
        return self.owner and os.getpid() == self.pid

    def in_this_process(self) -> Session:
        """Return this session or, in a fork, a worker's session with its own journal."""
        pid = os.getpid()
        if pid == self.pid:
            return self
        role = f"worker{pid}"
        journal = Journal(self.run_dir, self.handover.attempt, role, self.handover.rank)
        return replace(self, owner=False, role=role, pid=pid, board=None, journal=journal, pulse=Pulse())


_joined: Session | None = None


def current() -> Session | None:
    """Return this process's session for code that the script calls, or None outside a run."""
    global _joined
    if _joined is not None:
        _joined = _joined.in_this_process()
    return _joined


def note(fact: Fact) -> None:
    """Write an event to this process's journal. Does nothing outside a run."""
    joined = current()
    if joined is not None:
        joined.journal.write(fact)


_write: Callable[[str], None] | None = None


def speak_through(write: Callable[[str], None] | None) -> None:
    """Pass this process's messages, but not its warnings, to `write` from now on, or to stderr again if it is None."""
    global _write
    _write = write


def say(text: str) -> None:
    """Report an event through the function set by `speak_through`, if any, or on stderr if that fails. Never raises."""
    if _write is not None:
        try:
            _write(text)
            return
        except Exception:
            pass  # the words matter more than where they appear
    warn(text)


def warn(text: str) -> None:
    """Write a line to stderr. Never raises, since the script must not fail because of an oomph message.

    The supervisor wraps and colours the line. On a terminal, it starts with a carriage return, so that the supervisor
    can recognise it after a progress bar.
    """
    try:
        start = "\r" if getattr(sys.stderr, "isatty", bool)() else ""
        sys.stderr.write(f"{start}{PREFIX}{shown_line(text)}\n")
        sys.stderr.flush()
    except Exception:
        pass  # stderr may be closed, or replaced by something else


def join(
    handover: Handover,
    ending: TrainingEnding | None = None,
    execution: Callable[[], int] | None = None,
    argv: Sequence[str] | None = None,
) -> Session:
    """Join the run, as the owner in the attempt's first Python process, and as a worker in all others.

    Args:
        ending, execution: for a notebook, as in `Session`.
        argv: the command line to record, if not all of it may be recorded.
    """
    global _joined
    know_secrets(sys.orig_argv, os.environ)
    pid, run_dir = os.getpid(), _reached(handover)
    owner = claim_ownership(run_dir, handover.attempt)
    role = "script" if owner else f"worker{pid}"
    session = _joined = Session(
        handover=handover,
        journal=Journal(run_dir, handover.attempt, role, handover.rank),
        owner=owner,
        role=role,
        pid=pid,
        board=_open_board(run_dir, handover.attempt) if owner else None,
        run_dir=run_dir,
        pulse=_pulse(handover) if owner else Pulse(),
        ending=ending,
        execution=execution,
    )
    undoing.remember(lambda: _leave(session))
    if owner:
        session.pulse.tell_power(Power.NONE)
        keep_lock_from_children(handover.lock_fd)
        if ending is None:  # an exception in a cell does not end the process
            atexit.register(_record_uncaught_exception, session)
    version = ".".join(map(str, sys.version_info[:3]))
    words = list(sys.orig_argv if argv is None else argv)
    session.journal.write(ProcessStarted(pid=pid, python=sys.executable, version=version, argv=words))
    return session


def _leave(session: Session) -> None:
    """Leave the run and close its files."""
    global _joined
    _joined = None
    session.journal.close()
    if session.board is not None:
        session.board.close()


def _reached(handover: Handover) -> Path | None:
    """Return the run directory, pinned to its descriptor, or None if another folder now has its name."""
    if handover.path is None or handover.run_dir_is is None:
        return handover.path
    try:
        pin(handover.path, handover.run_dir_is)
    except OSError as error:
        warn(f"{error.strerror}: running the script without checkpoints")
        return None
    return handover.path


def _pulse(handover: Handover) -> Pulse:
    """Set up heartbeats and on-request stack traces. A lost pipe ends the traces if their descriptor is closed too."""
    beats, fd = inherited(handover.beat_fd, handover.beat_inode), inherited(handover.stacks_fd, handover.stacks_inode)
    if fd is None or handover.stacks_signal is None:
        return Pulse(beats)
    stacks = StackWriter(fd, handover.stacks_signal)
    stacks.begin()
    return Pulse(beats, stacks.end_if_lost)


def _open_board(run_dir: Path | None, attempt: int) -> ProgressBoard | None:
    if run_dir is None:
        return None
    try:
        return ProgressBoard(run_dir, attempt)
    except OSError:
        return None  # a full disk must not stop training


def keep_lock_from_children(lock_fd: int | None) -> None:
    """Keep child processes from inheriting the run directory's lock, which would then outlive the script."""
    if lock_fd is not None:
        try:
            os.set_inheritable(lock_fd, False)
        except OSError:
            pass  # a launcher between oomph and Python has closed the descriptor


def _record_uncaught_exception(session: Session) -> None:
    """Record the uncaught exception, which CPython leaves in `sys.last_value`. Called at exit."""
    error = getattr(sys, "last_value", None)
    if error is None or not session.is_owner_now():
        return
    try:
        message = str(error)[:_MESSAGE_CHARACTERS]
    except Exception:
        message = ""  # an exception whose __str__ fails
    session.journal.write(UncaughtException(type=type(error).__name__, message=message))
