"""Unguarded training in a run, in words: the line after the account. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from oomph.journal.events import ProcessStarted, TrainedOutsideFit, UnguardedTraining
from oomph.journal.journal import Event, facts
from oomph.protocol.replacements import SUPERVISED, unguarded_in_words
from oomph.run.report.causes import causes
from oomph.run.report.labels import UNGUARDED, is_guarded, outside_reason, unguarded_loops
from oomph.run.report.remedies import remedies

NOT_LOADED = "the script ran unguarded: its Python did not load oomph (was it started with -I, -E or -S?)"
NO_PYTHON = "the command ran unguarded: no Python of it loaded oomph (is there one? -I, -E and -S keep oomph out)"
UNKNOWN = "without a run directory, whether a training was guarded is not recorded"
NONE_SEEN = "no training was seen, so nothing was guarded"
RECOVERED = "recovered in process, not checkpointed; a restart starts it over"
NOT_ASKED = f"unguarded, as --no-guard asks: {SUPERVISED}"


def unguarded(events: Sequence[Event], guard: bool, loaded: bool, python: bool = True, recorded: bool = True) -> str:
    """Describe the unguarded training, what that means, and what to do; empty when there was none.

    Args:
        events: those of all attempts.
        guard: whether the run has a guard.
        loaded: whether the script's Python is known to have loaded oomph.
        python: whether a Python is known to have started.
        recorded: whether there is a run directory for the script's events.
    """
    if not loaded:
        return NOT_LOADED if python else NO_PYTHON
    if not guard:
        return NOT_ASKED
    if not recorded:
        return UNKNOWN
    seen = facts(events, UnguardedTraining)
    if seen:
        return unguarded_in_words(seen[0].site, seen[0].kind)
    guarded = is_guarded(events)
    cause = remedies(UNGUARDED, causes(UNGUARDED, events))[0]
    if cause.reason and (not guarded or unguarded_loops(events)):
        return f"unguarded: {cause.reason}, {SUPERVISED}. To have it guarded, {cause.text}"
    outside = next((outside_reason(each.site) for each in facts(events, TrainedOutsideFit)), None)
    if outside is not None:
        return f"{outside}: {RECOVERED}. To have it resumed, {outside.remedy}"
    nothing = not guarded and facts(events, ProcessStarted)  # else unknown
    return NONE_SEEN if nothing else ""
