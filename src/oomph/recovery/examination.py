"""examine(trail) -> Ending: all that the decision needs to know about how an attempt ended. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from oomph.journal import Event
from oomph.recovery.diagnosis import Named, name_fault, signal_name
from oomph.recovery.policy import Ending, is_crash
from oomph.recovery.progress import Progress


@dataclass(frozen=True)
class Trail:
    """What an attempt has left behind."""

    returncode: int
    """As `subprocess` has it: −n for death by signal n."""
    oom_kills: int | None
    """New OOM kills of the control group; None when it does not count them."""
    stderr: bytes
    stopped: bool
    """The user or the scheduler wanted it to end."""
    events: Sequence[Event]
    """What the script's processes wrote into the journal in this attempt."""
    progress: Progress | None
    """Where it got to; None when it has not committed a step."""


def examine(trail: Trail, wrapped: bool = False, blind: bool = False) -> tuple[tuple[Named, ...], Ending]:
    """The faults found, the likeliest first, and the ending.

    `wrapped`: a shell may stand between oomph and the script, and report a death as 128 + n.
    `blind`: there is no guard, or no directory for it to report in, so nobody could tell whether training began.
    """
    events, progress = trail.events, trail.progress
    returncode = _through_shell(trail.returncode) if wrapped else trail.returncode
    names: tuple[Named, ...] = ()
    if returncode != 0 and not trail.stopped:
        names = name_fault(returncode, trail.oom_kills, trail.stderr, events)
    requested, gave_up = last(events, "restart-requested"), last(events, "gave-up")
    died_of_it = returncode != 0 and last(events, "uncaught-exception") is not None
    ending = Ending(
        returncode=returncode,
        fault=names[0].name if names else signal_name(returncode),
        started=blind or progress is not None or last(events, "fit-started") is not None,
        steps=0 if progress is None else progress.steps,
        saved=0 if progress is None else progress.saved,
        stopped=trail.stopped,
        restart_requested="" if requested is None else _reason(requested),
        gave_up=_reason(gave_up) if gave_up is not None and died_of_it else "",
    )
    return names, ending


def last(events: Sequence[Event], name: str) -> Event | None:
    """The last event of this name."""
    return next((event for event in reversed(events) if event.name == name), None)


def _through_shell(returncode: int) -> int:
    return 128 - returncode if is_crash(128 - returncode) else returncode


def _reason(event: Event) -> str:
    return str(event.data.get("reason") or event.data.get("fault") or event.name)
