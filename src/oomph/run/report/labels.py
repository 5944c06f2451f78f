"""The label of a run: how its result relates to that of an undisturbed run, and why it is not better. Pure.

What was restored limits the label; what was compared decides it. Each fit of each attempt gets a label from the events
alone. The label of the run is the worst of them.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from oomph.journal.journal import Event, by_attempt, by_name
from oomph.protocol.coverage import ANY, Coverage, Range, coverage_of
from oomph.protocol.left_out import left_out
from oomph.protocol.reasons import Reason, because, reason_from, reason_of, reasons_from
from oomph.protocol.unguarded import KINDS
from oomph.run.policy.ladder import OPT_IN, change_in
from oomph.run.report.reached import interrupted
from oomph.run.report.repeats import Repeat, repeats

EXACT = "exact"
VERIFIED = "verified"
UNVERIFIED = "unverified"
REPLAYED = "replayed"
APPROXIMATE = "approximate"
NOT_EQUAL = "not-equal"
STARTED_OVER = "started-over"
UNGUARDED = "unguarded"
FAILED = "failed"
ORDER = (EXACT, VERIFIED, UNVERIFIED, REPLAYED, APPROXIMATE, NOT_EQUAL, STARTED_OVER, UNGUARDED, FAILED)
"""The labels, from best to worst."""
STOPPED = (75, 129, 130, 143)
"""Exit codes after a preemption, SIGHUP, Ctrl-C and SIGTERM: the end was requested, and the run may resume later."""
MEANING = {
    EXACT: "exact: as if nothing had happened, within rounding",
    VERIFIED: "verified: the repeated steps match the original ones",
    UNVERIFIED: "unverified: everything known was restored, but too few repeated steps could be compared",
    REPLAYED: "replayed: the batches of the epoch were read again; they and the repeated steps match the original ones",
    APPROXIMATE: "approximate: batches were split into micro-batches, which may not give the same result",
    NOT_EQUAL: "not equal to an undisturbed training",
    STARTED_OVER: "started over: a training was restarted from its beginning, not resumed",
    UNGUARDED: "unguarded: a training was not guarded, so it was neither checkpointed nor resumed",
    FAILED: "failed: the training did not finish",
}
SMALLER = "smaller batches"
"""The guard kind of --allow-smaller-batch."""
_GUARDS = {"approximate": APPROXIMATE, SMALLER: NOT_EQUAL}
"""Guard kind → the label after recovering from an out-of-memory error; exact under all others."""


class Labelled(NamedTuple):
    """A label and its reasons, the first cause first."""

    label: str = EXACT
    reasons: tuple[Reason, ...] = ()


def worst(labelled: Iterable[Labelled]) -> Labelled:
    """The worst of several, with the reasons of all that have this label or are not equal."""
    known = list(labelled)
    label = max((each.label for each in known), key=ORDER.index, default=EXACT)
    reasons = [reason for each in known if each.label in (label, NOT_EQUAL) for reason in each.reasons]
    return Labelled(label, tuple(sorted(dict.fromkeys(reasons), key=lambda each: each.rank)))


def label_of(events: Sequence[Event], exit_code: int | None) -> Labelled:
    """The label of a run.

    Args:
        events: those of all its attempts, in order.
        exit_code: how it ended; None while it runs, or when its end is unknown.
    """
    found = worst(
        [
            *_recoveries(events),
            *_changes(events),
            *_resumes(events),
            *_abandoned(events, exit_code),
            *_stopped(events, exit_code),
            *_loops(events),
            *_beyond_the_guard(events),
            *_outside_fits(events),
            *(_caught(events) if exit_code == 0 else ()),
        ]
    )
    if exit_code not in (None, 0, *STOPPED):
        return Labelled(FAILED, found.reasons)
    if not is_guarded(events):
        return Labelled(UNGUARDED, found.reasons)
    return found


def _recoveries(events: Sequence[Event]) -> Iterator[Labelled]:
    """The labels of micro-batches, wherever a batch was split."""
    guards, unknown = _guards(events), _Guard()
    probed = [event for event in events if event.name == "probed"]
    if _contradicted(probed):
        yield Labelled(APPROXIMATE, (because("later-coupling"),))
    elsewhere = {event.data["during"]: _guard(event, "kind") for event in probed if "during" in event.data}
    for event in events:
        guard = guards.get((event.attempt, event.data.get("fit")), unknown)
        if event.name == "recovered" and "during" in event.data:
            yield _of_guard(elsewhere.get(event.data["during"], unknown))
        elif event.name == "recovered":
            yield _of_guard(guard)
        elif event.name == "fit-finished" and event.data.get("micro_batch") is not None:
            kind = str(event.data.get("guard"))
            yield _of_guard(guard if kind == guard.kind else _Guard(kind))


def _changes(events: Sequence[Event]) -> Iterator[Labelled]:
    """The labels of changes that alter the mathematics and that the user allowed."""
    for event in events:
        change = change_in(event.data) if event.name == "decided" else None
        if change is not None and change.name in OPT_IN:
            yield Labelled(NOT_EQUAL, (because(change.name, **({"place": change.value} if change.value else {})),))
    missing = left_out(events)
    if missing is not None:
        yield Labelled(NOT_EQUAL, (missing,))


class _Guard(NamedTuple):
    """The guard of a fit or another loop of Keras."""

    kind: str = ""
    reason: str = ""
    coupling: str = ""


def _guards(events: Sequence[Event]) -> dict[Any, _Guard]:
    """The guard of each fit of each attempt."""
    found = {(e.attempt, e.data.get("fit")): _guard(e, "guard") for e in events if e.name == "fit-started"}
    probed = (e for e in events if e.name == "probed" and "fit" in e.data)
    return found | {(e.attempt, e.data.get("fit")): _guard(e, "kind") for e in probed}


def _guard(event: Event, kind: str) -> _Guard:
    return _Guard(*(str(event.data.get(name) or "") for name in (kind, "reason", "coupling")))


def _of_guard(guard: _Guard) -> Labelled:
    label = _GUARDS.get(guard.kind, EXACT)
    if label == NOT_EQUAL:
        return Labelled(label, (because("smaller-batches"),))
    if label == EXACT or not guard.reason:
        return Labelled(label)
    return Labelled(label, (because("divided", reason=guard.reason, coupling=guard.coupling),))


def _contradicted(probed: Sequence[Event]) -> bool:
    """True if a later probe found a coupling that the first one of the same fit or loop missed."""
    exact: set[Any] = set()
    for event in probed:
        step = (event.attempt, event.data.get("fit"), event.data.get("during"))
        if event.data.get("kind") == "exact":
            exact.add(step)
        elif step in exact:
            return True
    return False


# -- restarts ---------------------------------------------------------------------------------------------------------


def _resumes(events: Sequence[Event]) -> Iterator[Labelled]:
    """The labels of fits in later attempts that an earlier attempt had begun."""
    begun: set[Any] = set()
    idle: set[Any] = set()
    finished: dict[Any, Event] = {}
    repeated = repeats(events)
    yield from _after_unrecorded(events)
    for attempt in by_attempt(events):
        by = by_name(attempt)
        yield from _not_reached(attempt, finished)
        yield from _returned_after_an_edit(attempt)
        yield from _from_before_an_edit(attempt)
        is_last = attempt[0].attempt == events[-1].attempt
        twice = repeated.get(attempt[0].attempt, Repeat())
        counted = {key: twice.of(is_last) for key in begun - {*finished}}
        short = {key for key, event in finished.items() if event.data.get("too_dear")}
        finished |= {_key(event): event for event in by.get("fit-finished", ()) if "key" in event.data}
        fits = by.get("fit-started", [])
        resumed = {_key(event) for event in by.get("resumed", ())}  # also by a call that has been edited
        twice_begun = [fit for fit in fits if begun & {_key(fit), _number(fit)} or _key(fit) in resumed]
        trained = [fit for fit in twice_begun if _key(fit) not in idle - resumed] or twice_begun
        again = [_begun_again(fit, by, short, counted.get(_key(fit), ANY)) for fit in trained]
        is_gone = not is_last and not _has_left(by)
        yield from (each for each in again if not (is_gone and each.label in (STARTED_OVER, UNVERIFIED)))
        if begun and not again and (fits or by.get("resumed")):
            yield Labelled(UNVERIFIED)  # the process ended between two fits: there was no step to repeat
        idle = (idle - {_key(fit) for fit in fits}) | (_idle(by) - begun)
        begun |= {_key(fit) for fit in fits}
        for event in by.get("appended-again", ()):
            where = {name: str(event.data.get(name)) for name in ("site", "path")}
            yield Labelled(NOT_EQUAL, (because("appended-again", **where),))
        for name in ("trusted", "another-way", "passed-on"):
            for event in by.get(name, ()):
                yield Labelled(NOT_EQUAL, (reason_of(event),))


def _idle(by: Mapping[str, list[Event]]) -> set[Any]:
    """The fits that an attempt began, but ended before their first step: no later attempt can repeat one."""
    finished = by.get("fit-finished", [])
    ended = [event.data.get("steps") for event in by.get("attempt-ended", ())]
    if not finished or ended != [finished[-1].data.get("reached")]:
        return set()
    return {_key(fit) for fit in by.get("fit-started", ())} - {_key(event) for event in finished}


def _after_unrecorded(events: Sequence[Event]) -> Iterator[Labelled]:
    """The label where the journals of earlier attempts were lost: nobody can compare with them."""
    is_first_known = min((event.attempt for event in events), default=1) <= 1
    if is_first_known and not unrecorded(events):
        return
    was_resumed = any(event.name == "resumed" or event.data.get("restored") for event in events)
    yield Labelled(UNVERIFIED if was_resumed and is_first_known else STARTED_OVER, (because("unrecorded"),))


def unrecorded(events: Sequence[Event]) -> int:
    """The number of earlier attempts that have no event but `attempt-ended`, which `--resume` may have added."""
    told = {event.attempt for event in events if event.name != "attempt-ended"}
    last = max(told, default=0)
    return max(0, last - 1 - sum(1 <= attempt < last for attempt in told))  # a forged number may be any


def _has_left(by: Mapping[str, list[Event]]) -> bool:
    """True if this attempt left anything for later attempts to resume from."""
    return bool(by.get("checkpoint") or by.get("fit-finished"))


def _not_reached(attempt: Iterable[Event], finished: Mapping[Any, Event]) -> Iterator[Labelled]:
    """Finished fits of earlier attempts that the script did not reach again: their changes are missing."""
    events, missing = list(attempt), dict(finished)
    resumed = {_key(event) for event in events if event.name == "resumed"}
    for event in events:
        if _is_edited(event):  # the edit may have changed its key, and it has a new number
            missing = {
                key: other for key, other in missing.items() if other.data.get("fit") != event.data["edited_fit"]
            }
        if event.name == "fit-started" and _key(event) not in {*resumed, *missing}:
            for passed_by in missing.values():
                if passed_by.role == event.role:
                    number = passed_by.data.get("fit", 0) + 1
                    yield Labelled(NOT_EQUAL, (because("finished-not-reached", number=number),))
        if event.name in ("fit-started", "resumed"):
            missing.pop(_key(event), None)
        if event.name == "resumed" and "fit" in event.data:  # also by a call that has been edited
            missing = {key: other for key, other in missing.items() if _number(other) != _number(event)}


def _from_before_an_edit(attempt: Iterable[Event]) -> Iterator[Labelled]:
    """Fits restored after an edited fit trained again: their state comes from before the edit."""
    edited: Event | None = None
    for event in attempt:
        if _is_edited(event):
            edited = event
        elif event.name == "resumed" and edited is not None and event.role == edited.role and "fit" in event.data:
            number, before = event.data["fit"] + 1, edited.data["edited_fit"] + 1
            why = [because("in-words", text=str(edited.data["reason"]))] if edited.data.get("reason") else []
            yield Labelled(NOT_EQUAL, (because("before-the-edit", number=number, edited=before), *why))


def _returned_after_an_edit(attempt: Iterable[Event]) -> Iterator[Labelled]:
    """Fits whose result was returned although the script has changed since."""
    for event in attempt:
        if event.name == "resumed" and event.data.get("kind") == "finished" and event.data.get("meant"):
            yield Labelled(NOT_EQUAL, reasons_from(event.data["meant"]))


def _is_edited(event: Event) -> bool:
    """True if a fit trains again because it was edited; the event holds its earlier number."""
    return event.name == "trains-again" and event.data.get("edited_fit") is not None


def _abandoned(events: Sequence[Event], exit_code: int | None) -> Iterator[Labelled]:
    """Unfinished fits of earlier attempts that the attempt which finished did not reach again."""
    fits = [event for event in events if event.name == "fit-started" and "key" in event.data]
    over = {_key(event) for event in events if event.name == "fit-finished"}
    last = max((event.attempt for event in events), default=0)
    over |= {_key(event) for event in events if event.attempt == last and event.name in ("fit-started", "resumed")}
    here = (event for event in events if event.attempt == last and event.name == "resumed" and "fit" in event.data)
    resumed = {_number(event) for event in here}  # also by a call that has been edited
    for fit in fits if exit_code == 0 else ():
        if _key(fit) not in over and _number(fit) not in resumed and not fit.role.startswith("worker"):
            yield Labelled(NOT_EQUAL, (because("begun-not-reached", number=fit.data.get("fit", 0) + 1),))


def _begun_again(fit: Event, by: Mapping[str, list[Event]], short: Container[Any], repeated: Range) -> Labelled:
    """The label of a fit that an earlier attempt had begun: resumed, or started again.

    Args:
        short: finished fits whose end states were too expensive to keep.
        repeated: the least and the most steps that it has repeated, by the journal.
    """
    compared = [event for event in by.get("compared", ()) if _key(event) == _key(fit)]
    unequal = [reason_from(event.data.get("cause")) for event in compared if not event.data.get("equal")]
    resumed = next(
        (e for e in by.get("resumed", ()) if _key(e) == _key(fit) and e.data.get("kind") != "finished"), None
    )
    itself = [reason_of(e) for e in by.get("resumed-itself", ()) if _key(e) == _key(fit)]
    if itself and resumed is None:
        return _resumed_itself(itself, unequal, coverage_of(compared, repeated))
    if unequal:
        known = () if resumed is None else _lost(resumed)
        return Labelled(NOT_EQUAL, (*known, *unequal))
    if resumed is not None:
        return _within_noise(_resumed(resumed, coverage_of(compared, repeated)), compared)
    restored = _key(fit) in short or any(event.data.get("kind") == "finished" for event in by.get("resumed", ()))
    if not (restored or _key(fit) in {_key(event) for event in by.get("trains-again", ())}):
        return Labelled(STARTED_OVER)
    return _within_noise(_proved(VERIFIED, coverage_of(compared, ANY)), compared)


def _resumed_itself(itself: Sequence[Reason], unequal: Sequence[Reason], coverage: Coverage) -> Labelled:
    """The label of a fit that the script resumed by itself: what it loaded is known by comparison alone."""
    if coverage.epochs and coverage.is_enough and not unequal:
        return Labelled(VERIFIED, coverage.reasons())
    return Labelled(NOT_EQUAL, (*itself, *unequal))


def _within_noise(label: Labelled, compared: Iterable[Event]) -> Labelled:
    """The label, with this training's noise where results differ in some bits."""
    noise = max((float(event.data.get("noise") or 0) for event in compared), default=0.0)
    within = (because("within-noise", noise=noise),) if noise else ()
    return Labelled(label.label, (*label.reasons, *within))


def _resumed(resumed: Event, coverage: Coverage) -> Labelled:
    lost = _lost(resumed)
    if lost:
        return Labelled(NOT_EQUAL, lost)
    return _proved(REPLAYED if resumed.data.get("kind") == "replayed" else VERIFIED, coverage)


def _proved(label: str, coverage: Coverage) -> Labelled:
    """The label, if the comparison covers enough of the repeated steps; unverified otherwise."""
    return Labelled(label if coverage.is_enough else UNVERIFIED, coverage.reasons())


def _lost(resumed: Event) -> tuple[Reason, ...]:
    """The reasons for state that is known to differ."""
    reasons = [*reasons_from(resumed.data.get("lost")), *reasons_from(resumed.data.get("meant"))]
    if resumed.data.get("kind") == "epoch":
        reasons.append(because("epoch-restarted"))
    if resumed.data.get("kind") == "over":
        reasons.append(because("all-epochs-trained"))
    return tuple(reasons)


def _stopped(events: Sequence[Event], exit_code: int | None) -> Iterator[Labelled]:
    """A script that was asked to stop and ended well by its own decision: an undisturbed training goes on."""
    newest = max((event.attempt for event in events), default=0)
    last = [event for event in events if event.name == "decided" and event.attempt == newest]
    ending = last[-1].data.get("ending") if last else None
    asked = isinstance(ending, Mapping) and bool(ending.get("stopped") or ending.get("interrupted"))
    if exit_code == 0 and (asked or interrupted(events, newest)) and is_guarded(events):
        yield Labelled(NOT_EQUAL, (because("asked-to-stop"),))


def _loops(events: Sequence[Event]) -> Iterator[Labelled]:
    """The script's own loops: a loop that oomph has not saved starts over."""
    looped = [event for event in events if event.name == "loop-seen"]
    trained = {event.attempt for event in looped}
    resumed = {event.attempt for event in looped if event.data.get("restored")}
    ended = [event for event in events if event.name == "attempt-ended" and event.data.get("steps")]
    lost = min((event.attempt for event in ended), default=None)
    if lost is not None and any(attempt > lost for attempt in trained - resumed):
        yield Labelled(STARTED_OVER)
    elif lost is not None and any(attempt > lost for attempt in trained):
        yield Labelled(UNVERIFIED)


def _beyond_the_guard(events: Iterable[Event]) -> Iterator[Labelled]:
    """Trainings that oomph has not guarded, beside others that it may have guarded."""
    for event in events:
        if is_unguarded_loop(event):
            yield Labelled(UNGUARDED, (loop_reason(event),))
        if event.name == "unguarded":
            yield Labelled(UNGUARDED, (_unguarded_reason(event),))


def _outside_fits(events: Sequence[Event]) -> Iterator[Labelled]:
    """Steps outside any fit: recovered in the process, so that only a restart loses them."""
    last = max((event.attempt for event in events), default=0)
    for event in events:
        if event.name == "trained-outside-fit" and (event.attempt < last or not is_guarded(events)):
            yield Labelled(UNGUARDED, (outside_reason(event),))


def _caught(events: Sequence[Event]) -> Iterator[Labelled]:
    """Out-of-memory errors that the script caught: it may have left something out, such as one of several trainings."""
    last = max((event.attempt for event in events), default=0)
    for event in events:
        if event.name == "oom" and event.data.get("phase") == "elsewhere" and event.attempt == last:
            yield Labelled(NOT_EQUAL, (because("oom-caught", site=str(event.data.get("site"))),))


def is_guarded(events: Iterable[Event]) -> bool:
    """True if any training of the run was guarded."""
    return any(event.name == "fit-started" or event.data.get("guarded") for event in events)


def outside_reason(event: Event) -> Reason:
    """The reason steps outside any fit are not resumed."""
    return because("outside-fit", site=str(event.data.get("site")))


def _unguarded_reason(event: Event) -> Reason:
    site, kind = str(event.data.get("site")), str(event.data.get("kind"))
    return because("unguarded-kind", site=site, kind=kind) if kind in KINDS else because("unguarded", site=site)


def is_unguarded_loop(event: Event) -> bool:
    """True if oomph saw a loop of the script's own, without `oomph.guard` on its step."""
    return event.name == "loop-seen" and not event.data.get("guarded")


def loop_reason(seen: Event) -> Reason:
    """The reason a loop of the script's own is not resumed."""
    return because("loop-without-steps", site=str(seen.data.get("site")))


def _key(event: Event) -> Any:
    """The fit that an event is about: its identity, or its number in journals of an older oomph."""
    return event.role.startswith("worker"), event.data.get("key", event.data.get("fit"))


def _number(event: Event) -> Any:
    """The fit by its number, as an older oomph identified it."""
    return event.role.startswith("worker"), event.data.get("fit")
