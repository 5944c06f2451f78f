"""What a run only supervised, in words: the line after the account. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from oomph.journal import Event
from oomph.recovery.protocol.unguarded import SUPERVISED, of_event
from oomph.recovery.report.causes import causes
from oomph.recovery.report.labels import UNGUARDED, is_guarded, is_unguarded_loop, outside_in_words
from oomph.recovery.report.remedies import remedies, remedy_of

NOT_LOADED = "the script ran unguarded: its Python did not load oomph (was it started with -I, -E or -S?)"
NONE_SEEN = "no training was seen, so nothing was guarded"
RECOVERED = "recovered in process, not checkpointed; a restart starts it over"
NOT_ASKED = f"unguarded, as --no-guard asks: {SUPERVISED}"


def unguarded(events: Sequence[Event], guard: bool, loaded: bool) -> str:
    """Which training was not guarded, what that means, and what to do; empty when there was none.

    Args:
        events: those of all attempts.
        guard: whether the run has one.
        loaded: whether the script's Python has loaded oomph, as far as is known.
    """
    if not loaded:
        return NOT_LOADED
    if not guard:
        return NOT_ASKED
    told = [event for event in events if event.name == "unguarded"]
    if told:
        return of_event(str(told[0].data.get("site")), str(told[0].data.get("kind")))
    guarded = is_guarded(events)
    cause = remedies(UNGUARDED, causes(UNGUARDED, events))[0]
    if cause.reason and (not guarded or any(map(is_unguarded_loop, events))):
        return f"unguarded: {cause.reason}, {SUPERVISED}. To have it guarded, {cause.text}"
    outside = next((outside_in_words(event) for event in events if event.name == "trained-outside-fit"), "")
    if outside:
        return f"{outside}: {RECOVERED}. To have it resumed, {remedy_of(outside)}"
    nothing = not guarded and any(event.name == "process-started" for event in events)  # else unknown
    return NONE_SEEN if nothing else ""
