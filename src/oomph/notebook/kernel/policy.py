"""Decides whether a dead kernel is started again. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from oomph.run.policy.decide import REQUEUE_EXIT_CODE, Finish, Restart
from oomph.terminal.amounts import times
from oomph.terminal.endings import ProcessEnd

MOST_DEATHS = 3
"""The number of deaths since the last progress after which Jupyter takes over, with its own restarts and dialogs."""


CLEAN = (0, REQUEUE_EXIT_CODE)
"""The return codes of a kernel that was meant to end."""


@dataclass(frozen=True)
class KernelEnd:
    """The end of a kernel process, and the progress that it had made."""

    returncode: int
    """The return code as in `subprocess`: −n for death by signal n."""
    stopped: bool
    """True if Jupyter asked the kernel to end."""
    ready: bool
    """True if the kernel became ready for requests."""
    progress: bool
    """True if this process executed a cell to its end, or committed a step."""


def deaths_without_progress(end: KernelEnd, before: int) -> int:
    """Return the number of deaths since the last progress, including this one."""
    return 1 if end.progress else before + 1


def after_end(end: KernelEnd, deaths: int) -> Finish | Restart:
    """Decide what follows the end of a kernel process. `deaths` is the number of deaths since the last progress."""
    if end.stopped or end.returncode in CLEAN:
        return Finish(ProcessEnd(end.returncode).exit_code)
    if not end.ready or deaths >= MOST_DEATHS:
        return Finish(ProcessEnd(end.returncode).exit_code)
    return Restart(f"the kernel died {times(deaths)} since its last progress" if deaths > 1 else "the kernel died")
