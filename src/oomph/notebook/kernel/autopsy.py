"""Finds out what ended a kernel, from what the Linux kernel counts and logs, the end of stderr and the journal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from oomph.explain.reading.kernel_log import KernelLog, that_concern
from oomph.process.available_memory import oom_kills

if TYPE_CHECKING:
    from oomph.run.policy.decide import Ending
    from oomph.run.policy.examination import Named
    from oomph.run.supervisor.attempt import Ended
    from oomph.run.supervisor.chronicle import Chronicle


@dataclass(frozen=True)
class CauseOfDeath:
    """What ended a kernel, and the evidence from outside of it."""

    names: tuple[Named, ...]
    """The faults found, most likely first."""
    ending: Ending
    oom_kills: int | None
    kernel_lines: tuple[str, ...]

    @property
    def cause(self) -> str:
        """A sentence about the most likely fault, or an empty string if nothing is known."""
        return self.names[0].title if self.names else ""


class Autopsy:
    """Compares what the Linux kernel has counted and logged since the kernel process started."""

    def __init__(self) -> None:
        self._log, self._kills = KernelLog(), oom_kills()

    def examine(self, ended: Ended, pid: int, chronicle: Chronicle, stacks: str) -> CauseOfDeath:
        """Return what ended the process. `stacks` are its Python stacks at a crash."""
        from oomph.run.policy.examination import Trail, examine  # not while the kernel starts

        now = oom_kills()
        kills = None if now is None or self._kills is None else now - self._kills
        lines = tuple(that_concern(self._log.read(), (pid,), ()))
        trail = Trail(
            ended.returncode,
            kills,
            ended.stderr,
            ended.stopped,
            chronicle.of_the_script(),
            chronicle.progress(),
            asked=ended.asked,
            hung=ended.hang is not None,
            elsewhere="\n".join([stacks, *lines]),
        )
        names, ending = examine(trail)
        return CauseOfDeath(names, ending, kills, lines)

    def close(self) -> None:
        """Close the log."""
        self._log.close()
