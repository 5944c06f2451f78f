"""Defines the seam to an engine, which starts the workers of an attempt on other machines than this one.

The supervisor asks for one gang at a time, and decides alone what an ending means and what follows. To it, a worker
elsewhere is the same pair as one of its own processes: a process to end, and a watch over its progress.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from oomph.errors import OomphError
from oomph.run.supervisor.attempt import Attended, Ended

if TYPE_CHECKING:
    from oomph.protocol.handover import Guarding
    from oomph.protocol.progress import Phase
    from oomph.run.hang.limits import Hang
    from oomph.run.policy.ladder import Change


class NoRoomError(OomphError):
    """The engine lost machines, and has too few left for another attempt."""


class WorkerProcess(Attended, Protocol):
    """A worker's process, here or on another machine."""

    @property
    def is_running(self) -> bool:
        """True until the process has exited, or is known to survive SIGKILL."""

    @property
    def is_stopped(self) -> bool:
        """True if the process is stopped, as by SIGSTOP."""

    @property
    def pids(self) -> tuple[int, ...]:
        """The PIDs on this machine that the kernel log may name."""

    @property
    def pid(self) -> int:
        """The PID of the process on this machine, or 0."""

    def ended(self) -> Ended:
        """Return how the process ended, once it is no longer running."""

    def end_within(self, seconds: float) -> None:
        """Ask the process to end, and kill it unless it does so in time."""

    def kill_within(self, seconds: float) -> None:
        """Kill the process unless it ends on its own in time."""

    def end_group(self, seconds: float) -> bool:
        """Kill the processes that the script left. Return True if that freed their memory in time."""

    def held(self) -> str:
        """Explain why the process that saves survives SIGKILL, or return an empty string if it has exited."""

    def leave_rest(self) -> None:
        """Let the processes that the script left running continue, where that is possible."""

    def close(self) -> int:
        """Release the process, and return its peak memory in bytes."""


class WorkerWatch(Protocol):
    """The watch over the progress of one worker, here or on another machine."""

    @property
    def phase(self) -> Phase | None:
        """The phase of the last heartbeat, or None before the first one."""

    @property
    def is_recovering(self) -> bool:
        """True while the script looks for a size of micro-batches that fits."""

    def standing(self, group: int, limit_seconds: float) -> Hang:
        """Describe where the process stands, without judging whether it hangs."""

    def crash_stacks(self) -> str:
        """Return the stacks that were written on a crash, and those requested after a hang."""

    def close(self) -> None:
        """Release the watch."""


class PlacedWorker(NamedTuple):
    """A worker that an engine has started."""

    process: WorkerProcess
    watch: WorkerWatch
    host: str
    """The name or the address of its machine."""


class GangJob(NamedTuple):
    """Everything that a gang is started from, whatever the engine."""

    words: tuple[str, ...]
    """The script and its arguments, as in `Command`."""
    python: str
    """The Python that the user chose for the script, or "" for the engine's own on each machine."""
    folder: Path
    """The working directory, which is the same on all machines."""
    run_dirs: tuple[Path, ...]
    """The run directory of each worker, by rank, on a file system that all machines share."""
    entropies: tuple[str, ...]
    """The entropy of each worker, by rank."""
    attempt: int
    guarding: Guarding
    changes: tuple[Change, ...]
    """The changes in effect."""
    is_cluster: bool
    """True if the script is to find its place in TF_CONFIG. It does so even where only one of several workers fits."""


class WorkerEngine(Protocol):
    """Starts gangs on machines that something else hands out."""

    def connect(self, fewest: int, most: int) -> None:
        """Connect, and see that there is room for the fewest workers that may start. Raises UsageError."""

    def room(self, fewest: int, most: int, say: Callable[[str], None], called_off: Callable[[], bool]) -> int:
        """Return the number of workers that can start now.

        If machines were lost, waits for others. Raises NoRoomError or UsageError if there are too few.

        Args:
            fewest: the number of workers below which no attempt starts.
            most: the number of workers that the script is to have if there is room.
            say: prints a message for the user.
            called_off: returns True once nobody wants the workers any more.
        """

    def start(
        self,
        job: GangJob,
        on_hang: Callable[[int, Hang], None],
        meanwhile: Callable[[], None],
        say: Callable[[str], None],
        called_off: Callable[[], bool],
    ) -> list[PlacedWorker]:
        """Start the workers, by rank.

        Raises UsageError if that is impossible, NoRoomError if it was possible once, and machines were lost since.

        Args:
            job: the workers to start.
            on_hang: called with the rank of a worker that makes no progress.
            meanwhile: called in every iteration of a worker's loop.
            say: prints a message for the user.
            called_off: returns True once nobody wants the workers any more.
        """

    def is_served(self, rank: int) -> bool:
        """True unless it is known that nobody listens at the worker's address in TF_CONFIG."""

    def close(self) -> None:
        """Leave the engine, and end what it has started."""
