"""Supervises one worker on a machine of a cluster: `python -m oomph.run.engine.agent`, started by the engine.

It reads orders from stdin and writes what happens to stdout. The script runs as a child, as it would under `oomph run`
on this machine: signals, hangs and crashes are noticed here, and judged by the supervisor. When stdin ends, nobody is
left to judge, so the script is killed.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import oomph
from oomph.errors import UsageError
from oomph.files.opening import OwnFile, open_folder
from oomph.process.descriptors import readable
from oomph.process.process_group import is_stopped
from oomph.protocol.handover import Guarding
from oomph.protocol.progress import Phase
from oomph.run.directory.run_directory import RunDirectory, read_record
from oomph.run.directory.workers import log_of
from oomph.run.engine.wire import Assignment, Lines, Message, hang_as_data, line_of, text_of
from oomph.run.hang.limits import Hang, Timings, floor_seconds
from oomph.run.hang.watch import Watch
from oomph.run.policy.ladder import change_of
from oomph.run.supervisor.attempt import Attempt
from oomph.run.supervisor.attempt_conditions import KernelWatch, Machine
from oomph.run.supervisor.effects import handover, surrounding
from oomph.run.supervisor.front import LogFront
from oomph.run.supervisor.script_record import ScriptRecord
from oomph.run.supervisor.settings import Settings
from oomph.run.supervisor.stop_requests import Signals

_IN, _CHUNK = 0, 1 << 16
_LAST_BYTES = 1 << 18
"""The bytes of the script's last output that the supervisor gets to judge it by."""


class WorkerPlace(NamedTuple):
    """A worker's place on this machine: its folders, and its script's port."""

    run: RunDirectory
    port: int


class SupervisorLine:
    """The connection to the supervisor."""

    def __init__(self) -> None:
        self._out = os.dup(1)
        os.dup2(2, 1)  # whatever else is printed must not disturb the messages
        self._lines = Lines()
        self.is_open = True

    def tell(self, message: Message) -> None:
        """Send a message. Never raises: if nobody is there, stdin has ended as well."""
        data = memoryview(line_of(message))
        try:
            while data:
                data = data[os.write(self._out, data) :]
        except OSError:
            self.is_open = False

    def hear(self, seconds: float) -> list[Message]:
        """Return the messages that arrive in this time at most."""
        if not self.is_open or not readable([_IN], seconds):
            return []
        data = os.read(_IN, _CHUNK)
        self.is_open = bool(data)
        return self._lines.take(data)


def why_not(given: Assignment) -> str:
    """Explain why this machine cannot run the worker, or return an empty string if it can. Enters the folder."""
    if given.oomph != oomph.__version__:
        return f"has oomph {oomph.__version__}, not {given.oomph}: install the same version on all machines"
    try:
        os.chdir(given.folder)
    except OSError as error:
        return f"cannot enter the working directory {given.folder}: {error.strerror}"
    script = next((word for word in given.words[:1] if word not in ("-m", "--")), "")
    if script and not os.path.exists(script):
        return f"has no {os.path.abspath(script)}: put the script where all machines find it"
    record = read_record(Path(given.run_root))
    if record is None or record.entropy != given.run:
        return (
            f"does not see the run directory {given.run_root}: choose one that all machines share, with --runs-dir;"
            " a store holds only a copy of it"
        )
    if not os.access(given.run_dir, os.W_OK | os.X_OK):
        return f"may not write to the run directory {given.run_dir}: mount it there with the right to write"
    return ""


def _place(given: Assignment) -> WorkerPlace:
    """Return the worker's place. Raises OSError if its folder cannot be opened."""
    path = Path(given.run_dir)
    fd = open_folder(path)
    try:
        found = os.fstat(fd)
    finally:
        os.close(fd)
    record = read_record(Path(given.run_root))
    assert record is not None  # `why_not` has read it
    identity = found.st_dev, found.st_ino
    with socket.socket() as free:
        free.bind(("", 0))
        port = free.getsockname()[1]
    return WorkerPlace(RunDirectory(path, record._replace(entropy=given.entropy), -1, identity), port)


class Agent:
    """Supervises the worker."""

    def __init__(self, line: SupervisorLine, given: Assignment, place: WorkerPlace, environ: dict[str, str]) -> None:
        self._line, self._given, self._place, self._environ = line, given, place, environ
        self._record = ScriptRecord(place.run.path, given.attempt)
        self._watch = Watch(Timings(), floor_seconds(), self._record.loops)
        self._phase: Phase | None = None
        self._is_stopped = False
        self._attempt: Attempt | None = None

    def run(self) -> None:
        """Run the script until it ends, and report its ending."""
        machine = Machine(os.environ)
        around = KernelWatch(machine)
        with Signals() as signals:
            attempt = self._attempt = self._start(signals)
            ended = attempt.wait()
            kernel = around.look_back(attempt.pids)
            attempt.end_group()  # the machine is shared: nothing of the script stays behind
            ending = {
                "is": "ended",
                "returncode": ended.returncode,
                "seconds": ended.seconds,
                "stderr": text_of(ended.stderr[-_LAST_BYTES:]),
                "stopped": ended.stopped,
                "asked": ended.asked,
                "unkillable": ended.unkillable,
                "crash_stacks": self._watch.crash_stacks(),
                "oom_kills": kernel.oom_kills,
                "kernel_lines": list(kernel.lines),
                "broken_gpu": kernel.broken_gpu,
            }
            self._line.tell({**ending, "peak": attempt.close()})
            self._watch.close()
        machine.close()

    def _start(self, signals: Signals) -> Attempt:
        given, run = self._given, self._place.run
        named = (change_of(name, value) for name, value in given.changes)
        changes = tuple(change for change in named if change is not None)
        environ = surrounding(Settings(), changes, (), given.entropy) | self._environ
        guarding = Guarding.of_document(given.guarding)
        start = f"{given.run}-{given.attempt}"
        passed = handover(guarding, changes, run, given.attempt, self._watch, given.rank, given.workers, start)
        passed._replace(lock_fd=None).write(environ)  # the supervisor alone holds the lock
        python = given.python or sys.executable
        return Attempt(
            _argv(given.words, python),
            environ,
            LogFront(OwnFile(run.path, log_of(given.attempt)), self._show if given.rank == 0 else None),
            signals,
            watch=self._watch,
            on_hang=self._found_hanging,
            meanwhile=self._obey_orders,
            complain=lambda text: self._line.tell({"is": "said", "text": text}),
        )

    def _show(self, data: bytes) -> bytes:
        self._line.tell({"is": "output", "text": text_of(data)})
        return b""

    def _found_hanging(self, hang: Hang) -> None:
        self._line.tell({"is": "hang", "hang": hang_as_data(hang)})

    def _obey_orders(self, pid: int) -> None:
        """Obey the orders that have arrived. Called ten times a second."""
        if self._watch.phase is not self._phase and self._watch.phase is not None:
            self._phase = self._watch.phase
            self._line.tell({"is": "phase", "phase": int(self._phase)})
        if is_stopped(pid) is not self._is_stopped:
            self._is_stopped = not self._is_stopped
            self._line.tell({"is": "stopped", "stopped": self._is_stopped})
        for order in self._line.hear(0.0):
            self._obey(order, pid)
        if not self._line.is_open and self._attempt is not None:
            self._attempt.kill_within(0.0)

    def _obey(self, order: Message, pid: int) -> None:
        attempt = self._attempt
        match order:
            case {"do": "signal", "signum": int(signum)} if signum in _FORWARDED:
                signal.raise_signal(signum)
            case {"do": "end", "seconds": int() | float() as seconds} if attempt is not None:
                attempt.end_within(seconds)
            case {"do": "kill", "seconds": int() | float() as seconds} if attempt is not None:
                attempt.kill_within(seconds)
            case {"do": "stand", "limit": int() | float() as limit}:
                hang = self._watch.standing(pid, limit)
                self._line.tell({"is": "standing", "hang": hang_as_data(hang)})


_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def _argv(words: tuple[str, ...], python: str) -> tuple[str, ...]:
    return words[1:] if words[0] == "--" else (python, *words)


def _next(line: SupervisorLine, wanted: Callable[[Message], bool]) -> Message | None:
    """Return the next message of a kind, or None if the connection ends before it comes."""
    while line.is_open:
        for message in line.hear(1.0):
            if wanted(message):
                return message
    return None


def main() -> None:
    """Wait for the assignment and for the addresses of all workers, and run this one."""
    line = SupervisorLine()
    message = _next(line, lambda found: "words" in found)
    if message is None:
        return
    given = Assignment.read(message)
    os.environ.update(given.environ)
    trouble = why_not(given)
    try:
        place = None if trouble else _place(given)
    except OSError as error:
        place, trouble = None, f"cannot use the run directory {given.run_dir}: {error.strerror}"
    if place is None:
        line.tell({"is": "refused", "text": trouble})
        return
    line.tell({"is": "ready", "port": place.port})
    start = _next(line, lambda found: found.get("do") == "start")
    if start is None:
        return
    environ = {str(name): str(value) for name, value in start["environ"].items()}
    try:
        Agent(line, given, place, environ).run()
    except UsageError as error:
        line.tell({"is": "refused", "text": str(error)})


if __name__ == "__main__":
    main()
