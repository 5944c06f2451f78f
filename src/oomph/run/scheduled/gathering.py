"""Lets the workers of a gang meet in the run directory, so that none starts before the others are there.

Each process writes one file, `gang/<rank>.json`, and reads those of the others: worker 0 calls, the others answer this
call, and worker 0 confirms the answers. A file that an earlier start left behind answers another call, or confirms
other answers. So no clock is compared, and none of the machines has to listen.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import shlex
import signal
import socket
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, get_type_hints

from oomph.errors import GatheringError, OomphError, RunDirectoryError, UsageError
from oomph.files.conforming import conforms
from oomph.files.opening import read_own, replace_own
from oomph.run.scheduled.allocation import Allocation
from oomph.terminal.amounts import as_duration, listed
from oomph.terminal.message import shown_line

_Values = TypeVar("_Values", bound=tuple[Any, ...])
FOLDER = "gang"
SCHEMA = 1
LIMIT_SECONDS = 600.0
LIMIT_VARIABLE = "OOMPH_TEST_GATHERING"
"""The environment variable that sets a shorter limit in seconds. For tests only."""
_POLL_SECONDS = 0.2
_QUIET_SECONDS = 2.0
"""The time to wait without a word, in which processes that start together appear."""
_MOST_BYTES = 1 << 20
_PROBE_BYTES = 4096
_LASTING = (errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM)
"""The errors of writing that another try does not mend."""
_FIRST_PORT, _PORTS, _LAST_PORT = 12000, 19000, 33000
"""The range of ports, below those that the kernel gives to outgoing connections, and how many of them jobs begin at."""


class Roster(NamedTuple):
    """The workers of a start, as all of them know it."""

    call: str
    """Identifies the start."""
    addresses: tuple[str, ...]
    """The address of each worker by rank."""
    attempts: int
    """The number of attempts before this one, according to worker 0."""


class GatheringNote(NamedTuple):
    """The file of one worker."""

    call: str
    """The call that it answers; that of worker 0 is the call itself."""
    token: str
    """Identifies this start of this worker."""
    workers: int
    host: str
    address: str
    attempts: int = 0
    tokens: tuple[str, ...] = ()
    """The tokens of all workers by rank, once worker 0 has seen them."""
    addresses: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    """The script and its arguments, without secrets."""
    refuses: str = ""
    """The reason why this worker takes no part, or "" if it does."""


@contextmanager
def leaving_if_asked(mine: Allocation) -> Iterator[None]:
    """Within the block, end the wait for the others if the scheduler asks for it, so that all start again later."""

    def leave(signum: int, _: object) -> None:
        name = signal.Signals(signum).name
        raise GatheringError(
            f"{mine.who} was stopped by {name} while it waited for the others: all have to start again"
        )

    before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGUSR1)}
    heard = [each for each, handler in before.items() if handler != signal.SIG_IGN]
    for each in heard:
        signal.signal(each, leave)
    try:
        yield
    finally:
        for each in heard:
            signal.signal(each, before[each])


def parsed(kind: type[_Values], content: bytes) -> _Values:
    """Parse a file of the gang's folder. Raises ValueError if it is damaged."""
    document: Any = json.loads(content)
    hints = get_type_hints(kind)
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise ValueError("not a file of a gang")
    if not all(conforms(document.get(name), hint) for name, hint in hints.items()):
        raise ValueError("a value is not what its reader expects")
    values = [document[name] for name in hints]
    return kind(*(tuple(value) if isinstance(value, list) else value for value in values))


class Gathering:
    """One worker's meeting with the others.

    Args:
        path: the run directory. Worker 0 has created it; the others wait for it.
        mine: the place of this worker.
        say: prints a line.
        seconds: how long to wait for the others.
        command: the script and its arguments, without secrets.
    """

    def __init__(
        self,
        path: Path,
        mine: Allocation,
        say: Callable[[str], None],
        seconds: float | None = None,
        command: Sequence[str] = (),
    ) -> None:
        self._path, self._mine, self._say, self._command = path, mine, say, tuple(command)
        self._seconds = limit_seconds() if seconds is None else seconds
        self._until, self._is_said = time.monotonic() + self._seconds, False
        self._token = secrets.token_hex(8)
        self._address = mine.addresses[mine.rank] if mine.addresses else _address(mine, say)

    def call(self, attempts: int) -> Roster:
        """Wait for the others, as worker 0. Raises OomphError if they do not come, refuse, or are not as many."""
        mine = self._note(self._token)._replace(attempts=attempts)
        self._write(mine)
        notes = {0: mine}
        while len(notes) < mine.workers:
            for rank in range(1, mine.workers):
                note = self._read(rank)
                if rank not in notes and note is not None and note.call == mine.call:
                    self._check(rank, note)
                    notes[rank] = note
            if len(notes) < mine.workers:
                self._wait([rank for rank in range(mine.workers) if rank not in notes])
        ordered = [notes[rank] for rank in range(mine.workers)]
        addresses = tuple(note.address for note in ordered)
        self._compare(ordered)
        self._write(mine._replace(tokens=tuple(note.token for note in ordered), addresses=addresses))
        return Roster(mine.call, addresses, attempts)

    def answer(self, refuse: Callable[[], None] = lambda: None) -> Roster:
        """Answer worker 0 until it confirms, as another worker. Raises OomphError if it does not, or expects others.

        Args:
            refuse: raises OomphError if this worker can take no part in the run that worker 0 has opened.
        """
        mine, answered = self._mine, ""
        self._probe()
        while True:
            called = self._read(0)
            if called is not None and called.tokens:  # of an earlier start, unless this worker has answered it
                if len(called.tokens) == mine.workers and called.tokens[mine.rank] == self._token:
                    return Roster(called.call, called.addresses, called.attempts)
                if called.call == answered:
                    raise UsageError(self._taken(called))
            elif called is not None and called.call != answered:
                self._answer(called.call, refuse)
                answered = called.call
                self._check(0, called)
            self._wait([0])

    def _answer(self, call: str, refuse: Callable[[], None]) -> None:
        try:
            refuse()
        except OomphError as error:
            self._write(self._note(call)._replace(refuses=str(error)))
            raise RunDirectoryError(f"{self._mine.who}: {error}") from error
        self._write(self._note(call))

    def _note(self, call: str) -> GatheringNote:
        mine = self._mine
        return GatheringNote(call, self._token, mine.workers, mine.host, self._address, command=self._command)

    def _check(self, rank: int, note: GatheringNote) -> None:
        if note.workers != self._mine.workers:
            raise UsageError(
                f"{self._mine.who} is one of {self._mine.workers}, but worker {rank} on {shown_line(note.host)} is one"
                f" of {note.workers}: start all with the same number of workers"
            )
        if note.refuses:
            raise RunDirectoryError(f"worker {rank} on {shown_line(note.host)} has ended: {shown_line(note.refuses)}")

    def _compare(self, notes: Sequence[GatheringNote]) -> None:
        """Name a worker that runs another command than worker 0, which may be what its user wants."""
        others = [rank for rank, note in enumerate(notes) if note.command != notes[0].command]
        if others:
            first, theirs = others[0], notes[others[0]]
            more = f", as do {len(others) - 1} more" if len(others) > 2 else ", as does 1 more" if others[1:] else ""
            self._say(
                f"worker {first} on {shown_line(theirs.host)} runs `{shown_line(shlex.join(theirs.command))}`, and"
                f" worker 0 `{shown_line(shlex.join(notes[0].command))}`: not the same command{more}"
            )

    def _taken(self, called: GatheringNote) -> str:
        mine = self._mine
        other = shown_line(called.addresses[mine.rank]) if len(called.addresses) == mine.workers else "another machine"
        return f"{mine.who}: another process, at {other}, is worker {mine.rank} as well; give each its own rank"

    def _wait(self, missing: list[int]) -> None:
        """Wait a moment. Raises OomphError once that has lasted too long, naming who is missing."""
        left = self._until - time.monotonic()
        if left > 0:
            if not self._is_said and left < self._seconds - _QUIET_SECONDS:
                self._is_said = True
                self._say(
                    f"{self._mine.who}, one of {self._mine.workers}, waits for {self._named(missing)} in {self._path},"
                    f" up to {as_duration(self._seconds)}"
                )
            time.sleep(_POLL_SECONDS)
            self._look_again()
            return
        names = self._named(missing)
        never = [rank for rank in missing if self._read(rank) is None]
        head = f"{self._mine.who} has waited {self._seconds:.0f} s in {self._path}"
        if never and self._mine.starts_together:
            raise RunDirectoryError(
                f"{head} and sees no file of {names}: the folder is not the same on all machines; choose one on a"
                " shared file system with --run-dir"
            )
        raise GatheringError(f"{head} for {names}: not started, or in a folder that is not the same on all machines")

    def _named(self, missing: list[int]) -> str:
        """Return the workers that are missing, with the machines of which none has appeared, if those are known."""
        seen = {note.host for rank in range(self._mine.workers) if (note := self._read(rank)) is not None}
        silent = [shown_line(host) for host in self._mine.hosts if host not in seen and host != self._mine.host]
        return listed([f"worker {rank}" for rank in missing]) + (f" ({listed(silent)})" if silent else "")

    def _probe(self) -> None:
        """Raise RunDirectoryError if the run directory, or the folder that it will be in, cannot be written."""
        there = next((folder for folder in (self._path, *self._path.parents) if folder.exists()), self._path)
        try:
            with tempfile.TemporaryFile(dir=there, buffering=0) as file:
                file.write(bytes(_PROBE_BYTES))
        except OSError as error:
            self._complain(error)

    def _complain(self, error: OSError) -> None:
        """Raise RunDirectoryError unless another try may succeed: worker 0 may just have renamed a finished run."""
        if self._mine.rank == 0 or error.errno in _LASTING:
            said = f"the run directory {self._path} cannot be written: {error.strerror}"
            raise RunDirectoryError(f"{self._mine.who}: {said}") from error

    def _look_again(self) -> None:
        """List the folder, which makes NFS ask the server for files that it has not known so far."""
        try:
            os.listdir(self._path / FOLDER)
        except OSError:
            pass

    def _read(self, rank: int) -> GatheringNote | None:
        try:
            return parsed(GatheringNote, read_own(self._path, _name(rank), _MOST_BYTES))
        except (OSError, ValueError, TypeError, RecursionError):
            return None

    def _write(self, note: GatheringNote) -> None:
        try:
            document = {"schema": SCHEMA, **note._asdict()}
            replace_own(self._path, _name(self._mine.rank), json.dumps(document).encode())
        except OSError as error:
            self._complain(error)


def limit_seconds() -> float:
    """Return how long the workers wait for one another, in seconds."""
    try:
        return float(os.environ.get(LIMIT_VARIABLE, LIMIT_SECONDS))
    except ValueError:
        return LIMIT_SECONDS


def reachable_name() -> str:
    """Return the name of this machine in the network, or its address if the network knows no full name.

    A pod with a headless service has a full name; others reach the pod by it once the service is known.
    """
    name = socket.gethostname()
    full = socket.getfqdn(name)
    if "." in full and not full.startswith("localhost"):
        return full
    try:
        return socket.gethostbyname(name)
    except OSError:
        return name


def _name(rank: int) -> str:
    return f"{FOLDER}/{rank}.json"


def _address(mine: Allocation, say: Callable[[str], None]) -> str:
    """Return the address at which the script will listen: the port follows from the job, unless it is taken."""
    wanted = port_of(mine.job, mine.rank)
    port = next((port for port in _from(wanted, mine.workers) if _is_free(port)), None)
    if port is None:
        raise UsageError(f"{mine.who}: port {wanted} is taken, and so are all others up to {_LAST_PORT}")
    if port != wanted:
        say(f"{mine.who}: port {wanted} is taken, using {port}")
    host = f"[{mine.host}]" if ":" in mine.host else mine.host
    return f"{host}:{port}"


def _from(wanted: int, workers: int) -> Iterator[int]:
    """Yield the port and those to try instead. Workers on one machine try different ones."""
    yield wanted
    span = _LAST_PORT + 1 - _FIRST_PORT
    yield from (_FIRST_PORT + (wanted - _FIRST_PORT + step) % span for step in range(workers, span, workers))


def _is_free(port: int) -> bool:
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            held.bind(("", port))
        except OSError:
            return False
    return True


def port_of(job: str, rank: int) -> int:
    """Return the port of a worker, the same at each start of a job."""
    return _FIRST_PORT + zlib.crc32(job.encode()) % _PORTS + rank
