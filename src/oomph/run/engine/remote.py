"""Shows the supervisor a worker on another machine as if it were a process of its own."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from oomph.protocol.progress import Phase
from oomph.run.engine.wire import Message, bytes_of, hang_in
from oomph.run.hang.limits import Hang
from oomph.run.supervisor.attempt import Ended, KernelReport
from oomph.run.supervisor.stop_requests import FORWARDED, Arrival

_STDOUT = 1
_ANSWER_SECONDS = 10.0
"""The extra time that a worker elsewhere may take to end before its machine counts as lost."""
_STANDING_SECONDS = 5.0


class Connection(Protocol):
    """The connection to the agents of a gang."""

    @property
    def read_fd(self) -> int:
        """The descriptor that becomes readable when an agent has said something."""

    def tell(self, rank: int, message: Message) -> None:
        """Send a message to a worker's agent."""

    def drop(self, rank: int) -> None:
        """Give up a worker's place, and whatever runs there."""

    def hear(self, seconds: float) -> None:
        """Wait for messages, and give each worker its own, with `RemoteProcess.take` or `lose`."""


class RemoteProcess:
    """A worker's process on another machine."""

    pid = 0
    pids = ()

    def __init__(
        self,
        rank: int,
        connection: Connection,
        on_hang: Callable[[int, Hang], None],
        meanwhile: Callable[[], None],
        say: Callable[[str], None],
    ) -> None:
        self.rank, self._connection = rank, connection
        self._on_hang, self._meanwhile, self._say = on_hang, meanwhile, say
        self.is_stopped = False
        self.phase: Phase | None = None
        self.crash_stacks = ""
        self._started = time.monotonic()
        self._ended: Ended | None = None
        self._peak = 0
        self._hang: Hang | None = None
        """A hang that was found, and has not been passed on."""
        self._stands: Hang | None = None
        """The answer to the last question where the worker stands."""
        self._lost_at: float | None = None
        """The monotonic time at which the machine counts as lost unless the worker has ended."""

    @property
    def is_running(self) -> bool:
        """True until the agent has reported the end, or is lost."""
        return self._ended is None

    def take(self, message: Message) -> None:
        """Accept a message of the agent. One of an unknown form is left out."""
        try:
            self._take(message)
        except (KeyError, TypeError, ValueError):
            pass  # an agent of another version, whose end will be noticed

    def lose(self) -> None:
        """Note that the agent is gone, with its process or its machine. Nothing is known of the worker's end."""
        if self._ended is None:
            seconds = time.monotonic() - self._started
            kernel = KernelReport(None, (), "")
            self._ended = Ended(-signal.SIGKILL, seconds, b"", stopped=False, kernel=kernel, is_lost=True)

    def sources(self) -> list[int]:
        """Return the descriptor of the connection, which all workers share."""
        return [self._connection.read_fd]

    def attend(self, ready: Collection[int], arrivals: Sequence[Arrival]) -> None:
        """Pass on output, findings and signals."""
        if self._connection.read_fd in ready:
            self._connection.hear(0.0)
        self._meanwhile()
        for arrival in arrivals:
            if arrival.signum in FORWARDED:
                self._connection.tell(self.rank, {"do": "signal", "signum": int(arrival.signum)})
        if self._hang is not None:
            hang, self._hang = self._hang, None
            self._on_hang(self.rank, hang)
        if self._ended is None and self._lost_at is not None and time.monotonic() > self._lost_at:
            self._connection.drop(self.rank)
            self.lose()

    def ended(self) -> Ended:
        """Return how the process ended."""
        assert self._ended is not None
        return self._ended

    def end_within(self, seconds: float) -> None:
        """Ask the process to end, and kill it unless it does so in time."""
        self._order({"do": "end", "seconds": seconds}, seconds)

    def kill_within(self, seconds: float) -> None:
        """Kill the process unless it ends on its own in time."""
        self._order({"do": "kill", "seconds": seconds}, seconds)

    def end_group(self, seconds: float) -> bool:
        """Return True: the agent ends what the script leaves behind before it reports the end."""
        return True

    def held(self) -> str:
        """Return an empty string: `Ended.unkillable` says whether the process survives SIGKILL."""
        return ""

    def leave_rest(self) -> None:
        """Do nothing: on a machine that others use, nothing of the script stays behind."""

    def close(self) -> int:
        """Return the peak memory of the process, in bytes."""
        return self._peak

    def standing(self, limit_seconds: float) -> Hang:
        """Ask the agent where the process stands. If it does not answer, that is unknown."""
        self._stands = None
        self._connection.tell(self.rank, {"do": "stand", "limit": limit_seconds})
        until = time.monotonic() + _STANDING_SECONDS
        while self._stands is None and self.is_running and time.monotonic() < until:
            self._connection.hear(0.1)
        return self._stands or Hang(self.phase or Phase.OWN_CODE, -1, 0.0, limit_seconds, "", "")

    def _order(self, order: Message, seconds: float) -> None:
        self._connection.tell(self.rank, order)
        at = time.monotonic() + seconds + _ANSWER_SECONDS
        self._lost_at = at if self._lost_at is None else min(at, self._lost_at)

    def _take(self, message: Message) -> None:
        match message["is"]:
            case "output":
                _print(bytes_of(message["text"]))
            case "phase":
                self.phase = Phase(message["phase"])
            case "stopped":
                self.is_stopped = message["stopped"] is True
            case "hang":
                self._hang = hang_in(message)
            case "standing":
                self._stands = hang_in(message)
            case "said":
                self._say(f"worker {self.rank}: {message['text']}")
            case "ended":
                self._ended = self._ended or _ended_in(message)
                self.crash_stacks, self._peak = str(message["crash_stacks"]), int(message["peak"])


class RemoteWatch:
    """The watch over the progress of a worker on another machine, which its agent keeps."""

    def __init__(self, process: RemoteProcess) -> None:
        self._process = process

    @property
    def phase(self) -> Phase | None:
        """The phase that the script last reported, or None if it hasn't reported any yet."""
        return self._process.phase

    @property
    def is_recovering(self) -> bool:
        """True while the script looks for a size of micro-batches that fits."""
        return self.phase is Phase.RECOVERING

    def standing(self, group: int, limit_seconds: float) -> Hang:
        """Describe where the process stands, without judging whether it hangs."""
        return self._process.standing(limit_seconds)

    def crash_stacks(self) -> str:
        """Return the stacks that were written on a crash, and those requested after a hang."""
        return self._process.crash_stacks

    def close(self) -> None:
        """Do nothing: the agent ends with the process."""


def _ended_in(message: Message) -> Ended:
    """Return the ending that an agent reports. Raises KeyError, TypeError or ValueError if it is damaged."""
    kills = message["oom_kills"]
    lines = tuple(map(str, message["kernel_lines"]))
    return Ended(
        returncode=int(message["returncode"]),
        seconds=float(message["seconds"]),
        stderr=bytes_of(message["stderr"]),
        stopped=message["stopped"] is True,
        asked=str(message["asked"]),
        unkillable=str(message["unkillable"]),
        kernel=KernelReport(None if kills is None else int(kills), lines, str(message["broken_gpu"])),
    )


def _print(data: bytes) -> None:
    """Write the first worker's output. Nobody may be reading it, which must not end the run."""
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(_STDOUT, view) :]
    except OSError:
        pass
