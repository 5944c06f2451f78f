"""Says which steps `--profile` has recorded, and why not others. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from oomph.journal.events import (
    AttemptEnded,
    ProfileFailed,
    ProfileSaved,
    ProfileStarted,
    RunStarted,
    UnguardedTraining,
)
from oomph.journal.journal import Event, by_attempt, facts, last
from oomph.protocol.profile_window import ProfileWindow
from oomph.terminal.amounts import counted

FOLDER = "profile"
"""The folder of the traces in a run directory. TensorBoard and XProf look for `plugins/profile` in it."""
ENDED, INTERRUPTED, OTHER_PROFILER, FAILED = "ended", "interrupted", "other-profiler", "failed"
"""The reasons why a trace ends before the window: training ended or was stopped, or the script started a profiler."""
_WHY_CUT: Mapping[str, str] = MappingProxyType(
    {ENDED: "the training ended there", INTERRUPTED: "the process ended there",
     OTHER_PROFILER: "the script started a profiler of its own"}
)  # fmt: skip


def steps_in_words(first: int, last: int) -> str:
    """Name the steps of a trace, counted from 1."""
    return f"step {first:,}" if first == last else f"steps {first:,} to {last:,}"


def saved_in_words(saved: ProfileSaved) -> str:
    """Say which steps were recorded, and why not the others that were asked for."""
    why = _WHY_CUT.get(saved.cut, "")
    return f"recorded {steps_in_words(saved.first, saved.last)}" + (f": {why}" if why else "")


def failed_in_words(failed: ProfileFailed) -> str:
    """Say why no trace could be taken."""
    if failed.why == OTHER_PROFILER:
        return f"step {failed.first:,} is not recorded, since another profiler is running in the script"
    if failed.why in _WHY_CUT:
        return f"step {failed.first:,} is not recorded: {_WHY_CUT[failed.why]}"
    return f"the steps from {failed.first:,} on could not be recorded: {failed.reason}"


def how_to_open(folder: str) -> str:
    """Return the command of the tool that shows a trace on a line of time, with every operation."""
    return f"xprof --logdir {shlex.quote(folder)}"


def not_recorded(events: Sequence[Event]) -> Iterator[str]:
    """Yield what of the profile is missing, and why."""
    yield from (failed_in_words(failed) for failed in facts(events, ProfileFailed))
    yield from missed(events)


def missed(events: Sequence[Event]) -> Iterator[str]:
    """Yield what is missing although no process of the script could say so."""
    yield from (
        f"attempt {attempt[0].attempt} ended while it was recorded: that trace is lost"
        for attempt in by_attempt(events)
        if _was_lost(attempt)
    )
    if not any(facts(events, kind) for kind in (ProfileStarted, ProfileSaved, ProfileFailed)):
        yield from _not_reached(events)


def _was_lost(attempt: Sequence[Event]) -> bool:
    begun, done = facts(attempt, ProfileStarted), [*facts(attempt, ProfileSaved), *facts(attempt, ProfileFailed)]
    return len(begun) > len(done) and last(attempt, AttemptEnded) is not None


def _not_reached(events: Sequence[Event]) -> Iterator[str]:
    started, ended = last(events, RunStarted), last(events, AttemptEnded)
    window = None if started is None else window_of(started)
    if window is None or ended is None:
        return
    if last(events, UnguardedTraining) is not None:
        why = "oomph does not see the steps of this training"
    elif ended.steps > window.start:
        why = f"{steps_in_words(window.start + 1, window.stop)} were trained earlier, or in another process"
    else:
        why = f"the training ended after {counted(ended.steps, 'step')}, before step {window.start + 1:,}"
    yield f"nothing was recorded: {why}"


def window_of(started: RunStarted) -> ProfileWindow | None:
    """Return the steps that were asked for, or None."""
    asked = started.profile
    if not isinstance(asked, Sequence) or len(asked) != 2 or not all(type(each) is int for each in asked):
        return None
    return ProfileWindow(*asked)
