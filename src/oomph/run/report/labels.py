"""Labels a run: how its result relates to that of an undisturbed run, and why the label is not better. Pure.

The restored state limits how good a label can be, and comparisons of repeated steps decide which one applies. Each fit
in each attempt is labelled on the basis of the events alone. The run's label is the worst of these.
"""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from oomph.journal.events import (
    AnotherWay,
    AppendedAgain,
    AttemptEnded,
    AttemptStarted,
    CheckpointSaved,
    Decided,
    FitFinished,
    FitStarted,
    LoopSeen,
    MicroBatchesProbed,
    Oom,
    PassedOn,
    ProcessStarted,
    Recovered,
    RepeatCompared,
    RestartRequested,
    Resumed,
    ResumedItself,
    TrainedOutsideFit,
    TrainsAgain,
    TrustedResult,
    UnguardedTraining,
    WorkersPlaced,
)
from oomph.journal.journal import ByKind, Event, by_attempt, events_of, facts, last, pairs
from oomph.protocol.coverage import ANY, Coverage, Range, coverage_of
from oomph.protocol.reasons import Reason, WithReason, because, left_out, reason_from, reason_of, reasons_from
from oomph.protocol.replacements import UNGUARDED_KINDS
from oomph.run.policy.ladder import OPT_IN, change_in
from oomph.run.report.attempts import Repeat, interrupted, repeats

EXACT = "exact"
VERIFIED = "verified"
UNVERIFIED = "unverified"
REPLAYED = "replayed"
APPROXIMATE = "approximate"
NOT_EQUAL = "not-equal"
STARTED_OVER = "started-over"
UNGUARDED = "unguarded"
FAILED = "failed"
UNKNOWN = "unknown"
"""The label of a run of whose journal a part was lost, given by those who read it."""
ORDER = (EXACT, VERIFIED, UNVERIFIED, REPLAYED, APPROXIMATE, NOT_EQUAL, STARTED_OVER, UNGUARDED, FAILED, UNKNOWN)
"""The labels, from best to worst."""
STOPPED = (75, 129, 130, 143)
"""Exit codes after a preemption, SIGHUP, Ctrl-C and SIGTERM: the run was asked to stop, and may resume later."""
MEANING = {
    EXACT: "exact: as if nothing had happened, within rounding",
    VERIFIED: "verified: the repeated steps match the original ones",
    UNVERIFIED: "unverified: everything known was restored, but too few repeated steps could be compared",
    REPLAYED: "replayed: the epoch's batches were read again; they and the repeated steps match the original ones",
    APPROXIMATE: "approximate: batches were split into micro-batches, which may not give the same result",
    NOT_EQUAL: "not equal to undisturbed training",
    STARTED_OVER: "started over: after a restart, training began again at its first step",
    UNGUARDED: "unguarded: some training was not guarded, so it was neither checkpointed nor resumed",
    FAILED: "failed: the training did not finish",
    UNKNOWN: "unknown: a part of the journal was lost, and with it what faults and restarts did to the result",
}
_NOT_RESTORED = "may differ from undisturbed training: not everything was restored"
_OF_UNKNOWN_EFFECT = frozenset(("object", "object-unseen", "method-failed", "state-not-saved"))
"""The codes of reasons for "not-equal" that name missing state without a comparison that shows a difference."""
_NOTHING_REPEATED = "unverified: everything known was restored; no step had to be repeated, so none could be compared"
SMALLER = "smaller batches"
"""The kind of guard that --allow-smaller-batch selects."""
_GUARDS = {"approximate": APPROXIMATE, SMALLER: NOT_EQUAL}
"""Maps a kind of guard to the label after recovery from an out-of-memory error, which is exact for all other kinds."""


Finished = tuple[Event, FitFinished]


class Labelled(NamedTuple):
    """A label and its reasons, root cause first."""

    label: str = EXACT
    reasons: tuple[Reason, ...] = ()


def meaning(label: str, repeated: int, reasons: Sequence[Reason]) -> str:
    """Describe what a label means for a run that repeated this many steps."""
    if label == NOT_EQUAL and reasons and all(reason.code in _OF_UNKNOWN_EFFECT for reason in reasons):
        return _NOT_RESTORED
    is_unneeded = label == UNVERIFIED and not repeated and not reasons
    return _NOTHING_REPEATED if is_unneeded else MEANING.get(label, label)


def worst(labelled: Iterable[Labelled]) -> Labelled:
    """Return the worst label, with the reasons of every entry that has this label or "not-equal".

    A difference between attempts may stem from approximate micro-batches of different sizes, so "not-equal" also
    gets the reasons of "approximate".
    """
    known = list(labelled)
    label = max((each.label for each in known), key=ORDER.index, default=EXACT)
    shown = {label, NOT_EQUAL, *([APPROXIMATE] if label == NOT_EQUAL else [])}
    reasons = [reason for each in known if each.label in shown for reason in each.reasons]
    return Labelled(label, tuple(sorted(dict.fromkeys(reasons), key=lambda each: each.rank)))


def label_of(events: Sequence[Event], exit_code: int | None) -> Labelled:
    """Determine the label of a run.

    Args:
        events: the events of all attempts, in order.
        exit_code: the exit code of the run, or None if it is still running or the code is unknown.
    """
    found = worst(
        [
            *_recoveries(events),
            *_changes(events),
            *_resumes(events),
            *_other_sizes(events),
            *_abandoned(events, exit_code),
            *_stopped(events, exit_code),
            *_loops(events),
            *_beyond_the_guard(events),
            *_outside_fits(events),
            *_in_other_processes(events),
            *(_caught(events) if exit_code == 0 else ()),
        ]
    )
    if exit_code not in (None, 0, *STOPPED):
        return Labelled(FAILED, found.reasons)
    if not is_guarded(events):
        return Labelled(UNGUARDED, found.reasons)
    return found


def _recoveries(events: Sequence[Event]) -> Iterator[Labelled]:
    """Yield a label wherever a batch was split into micro-batches."""
    guards, unknown = _guards(events), _Guard()
    probed = pairs(events, MicroBatchesProbed)
    if _contradicted(probed):
        yield Labelled(APPROXIMATE, (because("later-coupling"),))
    elsewhere = {found.during: _probed(found) for _, found in probed if found.during is not None}
    for event in events:
        match event.fact:
            case Recovered(during=str(during)):
                yield _of_guard(elsewhere.get(during, unknown))
            case Recovered(fit=fit):
                yield _of_guard(guards.get((event.attempt, fit), unknown))
            case FitFinished(fit=fit, guard=kind, micro_batch=int()):
                guard = guards.get((event.attempt, fit), unknown)
                yield _of_guard(guard if kind == guard.kind else _Guard(kind))


def _changes(events: Sequence[Event]) -> Iterator[Labelled]:
    """Yield a label for each change that alters the mathematics, which the user must have allowed."""
    for decided in facts(events, Decided):
        change = change_in(decided)
        if change is not None and change.name in OPT_IN:
            yield Labelled(NOT_EQUAL, (because(change.name, **({"place": change.value} if change.value else {})),))
    missing = left_out(events)
    if missing is not None:
        yield Labelled(NOT_EQUAL, (missing,))


class _Guard(NamedTuple):
    """The guard of a fit, or of evaluate or predict."""

    kind: str = ""
    reason: str = ""
    coupling: str = ""


def _guards(events: Sequence[Event]) -> dict[Any, _Guard]:
    """Return the guard of each fit in each attempt."""
    begun = pairs(events, FitStarted)
    found = {(event.attempt, fit.fit): _Guard(fit.guard, fit.reason, fit.coupling) for event, fit in begun}
    probed = pairs(events, MicroBatchesProbed)
    return found | {(event.attempt, each.fit): _probed(each) for event, each in probed if each.fit is not None}


def _probed(found: MicroBatchesProbed) -> _Guard:
    return _Guard(found.kind, found.reason, found.coupling)


def _of_guard(guard: _Guard) -> Labelled:
    label = _GUARDS.get(guard.kind, EXACT)
    if label == NOT_EQUAL:
        return Labelled(label, (because("smaller-batches"),))
    if label == EXACT or not guard.reason:
        return Labelled(label)
    return Labelled(label, (because("divided", reason=guard.reason, coupling=guard.coupling),))


def _contradicted(probed: Sequence[tuple[Event, MicroBatchesProbed]]) -> bool:
    """True if a later probe found a coupling that the first probe of the same fit or loop missed."""
    exact: set[Any] = set()
    for event, found in probed:
        step = (event.attempt, found.fit, found.during)
        if found.kind == "exact":
            exact.add(step)
        elif step in exact:
            return True
    return False


# -- restarts ---------------------------------------------------------------------------------------------------------


def _resumes(events: Sequence[Event]) -> Iterator[Labelled]:
    """Yield the labels of fits that an earlier attempt had already started."""
    begun: set[Any] = set()
    idle: set[Any] = set()
    finished: dict[Any, Finished] = {}
    repeated = repeats(events)
    yield from _after_unrecorded(events)
    for attempt in by_attempt(events):
        by = ByKind(attempt)
        yield from _not_reached(attempt, finished)
        yield from _returned_after_an_edit(attempt)
        yield from _from_before_an_edit(attempt)
        is_last = attempt[0].attempt == events[-1].attempt
        twice = repeated.get(attempt[0].attempt, Repeat())
        counted = {key: twice.of(is_last) for key in begun - {*finished}}
        short = {key for key, (_, fit) in finished.items() if fit.too_dear}
        finished |= {_key(event): (event, fit) for event, fit in by.pairs(FitFinished)}
        fits = by.events(FitStarted)
        resumed = {_key(event) for event in by.events(Resumed)}  # even if the call was edited in the meantime
        twice_begun = [fit for fit in fits if _key(fit) in begun | resumed]
        trained = [fit for fit in twice_begun if _key(fit) not in idle - resumed] or twice_begun
        again = [_begun_again(fit, by, short, counted.get(_key(fit), ANY)) for fit in trained]
        is_gone = not is_last and not _has_left(by)
        yield from (each for each in again if not (is_gone and each.label in (STARTED_OVER, UNVERIFIED)))
        if begun and not again and (fits or resumed):
            yield Labelled(UNVERIFIED)  # the process exited between two fits, so there was no step to repeat
        idle = (idle - {_key(fit) for fit in fits}) | (_idle(by) - begun)
        begun |= {_key(fit) for fit in fits if not _ended_untrained(by)}
        for again_there in by.facts(AppendedAgain):
            where = {"site": again_there.site, "path": again_there.path}
            yield Labelled(NOT_EQUAL, (because("appended-again", **where),))
        given: list[WithReason] = [*by.facts(TrustedResult), *by.facts(AnotherWay), *by.facts(PassedOn)]
        yield from (Labelled(NOT_EQUAL, (reason_of(each),)) for each in given)


def _idle(by: ByKind) -> set[Any]:
    """Return the fits that an attempt started but left before their first step, so that there is nothing to repeat."""
    finished = by.pairs(FitFinished)
    ended = [each.steps for each in by.facts(AttemptEnded)]
    if not finished or ended != [finished[-1][1].reached]:
        return set()
    return {_key(fit) for fit in by.events(FitStarted)} - {_key(event) for event, _ in finished}


def _ended_untrained(by: ByKind) -> bool:
    """True if the attempt requested a new process before its first step, e.g. because a probe ran out of memory."""
    return bool(by.events(RestartRequested)) and [each.steps for each in by.facts(AttemptEnded)] == [0]


def _after_unrecorded(events: Sequence[Event]) -> Iterator[Labelled]:
    """Yield a label if the journals of earlier attempts are lost, which makes comparisons impossible."""
    is_first_known = min((event.attempt for event in events), default=1) <= 1
    if is_first_known and not unrecorded(events):
        return
    was_resumed = bool(facts(events, Resumed)) or any(loop.restored for loop in facts(events, LoopSeen))
    yield Labelled(UNVERIFIED if was_resumed and is_first_known else STARTED_OVER, (because("unrecorded"),))


def unrecorded(events: Sequence[Event]) -> int:
    """Count the earlier attempts without any event except `attempt-ended`, which `--resume` may have added."""
    told = {event.attempt for event in events if not isinstance(event.fact, AttemptEnded)}
    last = max(told, default=0)
    return max(0, last - 1 - sum(1 <= attempt < last for attempt in told))  # a forged number may be arbitrarily large


def _has_left(by: ByKind) -> bool:
    """True if this attempt left something for later attempts to resume from."""
    return bool(by.events(CheckpointSaved, FitFinished))


def _not_reached(attempt: Iterable[Event], finished: Mapping[Any, Finished]) -> Iterator[Labelled]:
    """Yield labels for fits that earlier attempts finished but this one did not reach, so their changes are lost."""
    events, missing = list(attempt), dict(finished)
    resumed = {_key(event) for event in events_of(events, Resumed)}
    for event in events:
        match event.fact:
            case TrainsAgain(edited_fit=int(before)):  # the edit may have changed its key, and its number is new
                missing = {key: other for key, other in missing.items() if other[1].fit != before}
            case FitStarted():
                if _key(event) not in {*resumed, *missing}:
                    for passed_by, fit in missing.values():
                        if passed_by.role == event.role:
                            number = (fit.fit or 0) + 1
                            yield Labelled(NOT_EQUAL, (because("finished-not-reached", number=number),))
                missing.pop(_key(event), None)
            case Resumed(fit=fit_number):
                missing.pop(_key(event), None)
                if fit_number is not None:  # even if the call was edited in the meantime
                    missing = {key: other for key, other in missing.items() if _number(other[0]) != _number(event)}


def _from_before_an_edit(attempt: Iterable[Event]) -> Iterator[Labelled]:
    """Yield labels for fits restored after an edited fit was trained again: their state is from before the edit."""
    role, before, reason = None, 0, ""
    for event in attempt:
        match event.fact:
            case TrainsAgain(edited_fit=int(number), reason=reason):
                role, before = event.role, number
            case Resumed(fit=int(number)) if event.role == role:
                why = [because("in-words", text=reason)] if reason else []
                yield Labelled(NOT_EQUAL, (because("before-the-edit", number=number + 1, edited=before + 1), *why))


def _returned_after_an_edit(attempt: Iterable[Event]) -> Iterator[Labelled]:
    """Yield labels for fits whose earlier result was returned although the script has changed since."""
    for resumed in facts(attempt, Resumed):
        if resumed.kind == "finished" and resumed.meant:
            yield Labelled(NOT_EQUAL, reasons_from(resumed.meant))


def _abandoned(events: Sequence[Event], exit_code: int | None) -> Iterator[Labelled]:
    """Yield labels for fits that earlier attempts left unfinished and that the last attempt did not reach."""
    newest = max((event.attempt for event in events), default=0)
    here = [event for event in events if event.attempt == newest]
    over = {_key(event) for event in (*events_of(events, FitFinished), *events_of(here, FitStarted, Resumed))}
    resumed = {_number(event) for event, found in pairs(here, Resumed) if found.fit is not None}
    for event, fit in pairs(events, FitStarted) if exit_code == 0 else ():
        is_there = _key(event) in over or _number(event) in resumed  # even if the call was edited in the meantime
        if not is_there and fit.key is not None and not event.role.startswith("worker"):
            yield Labelled(NOT_EQUAL, (because("begun-not-reached", number=(fit.fit or 0) + 1),))


def _begun_again(fit: Event, by: ByKind, short: Container[Any], repeated: Range) -> Labelled:
    """Return the label of a fit that an earlier attempt had already started, and that was resumed or started over.

    Args:
        short: the finished fits whose end states were too expensive to keep.
        repeated: the range of the number of steps that it repeated, according to the journal.
    """
    compared = [found for event, found in by.pairs(RepeatCompared) if _key(event) == _key(fit)]
    unequal = [reason_from(found.cause) for found in compared if not found.equal]
    of_it = (found for event, found in by.pairs(Resumed) if _key(event) == _key(fit))
    resumed = next((found for found in of_it if found.kind != "finished"), None)
    itself = [reason_of(found) for event, found in by.pairs(ResumedItself) if _key(event) == _key(fit)]
    if itself and resumed is None:
        return _resumed_itself(itself, unequal, coverage_of(compared, repeated))
    if unequal:
        known = () if resumed is None else _lost(resumed)
        return Labelled(NOT_EQUAL, (*known, *unequal))
    if resumed is not None:
        return _within_noise(_resumed(resumed, coverage_of(compared, repeated)), compared)
    restored = _key(fit) in short or any(found.kind == "finished" for found in by.facts(Resumed))
    if not (restored or _key(fit) in {_key(event) for event in by.events(TrainsAgain)}):
        return Labelled(STARTED_OVER)
    return _within_noise(_proved(VERIFIED, coverage_of(compared, ANY)), compared)


def _resumed_itself(itself: Sequence[Reason], unequal: Sequence[Reason], coverage: Coverage) -> Labelled:
    """Return the label of a fit that the script itself restored. Only a comparison shows which state it loaded."""
    if coverage.epochs and coverage.is_enough and not unequal:
        return Labelled(VERIFIED, coverage.reasons())
    return Labelled(NOT_EQUAL, (*itself, *unequal))


def _within_noise(label: Labelled, compared: Iterable[RepeatCompared]) -> Labelled:
    """Return the label, adding the noise as a reason if results differ in a few bits."""
    noise = max((found.noise or 0.0 for found in compared), default=0.0)
    within = (because("within-noise", noise=noise),) if noise else ()
    return Labelled(label.label, (*label.reasons, *within))


def _resumed(resumed: Resumed, coverage: Coverage) -> Labelled:
    lost = _lost(resumed)
    if lost:
        return Labelled(NOT_EQUAL, lost)
    return _proved(REPLAYED if resumed.kind == "replayed" else VERIFIED, coverage)


def _proved(label: str, coverage: Coverage) -> Labelled:
    """Return the label if the comparison covers enough of the repeated steps, or "unverified" if not."""
    return Labelled(label if coverage.is_enough else UNVERIFIED, coverage.reasons())


def _lost(resumed: Resumed) -> tuple[Reason, ...]:
    """Return a reason for each piece of state that is known to differ."""
    reasons = [*reasons_from(resumed.lost), *reasons_from(resumed.meant)]
    if resumed.kind == "epoch":
        reasons.append(because("epoch-restarted"))
    if resumed.kind == "over":
        reasons.append(because("all-epochs-trained"))
    return tuple(reasons)


def _other_sizes(events: Sequence[Event]) -> Iterator[Labelled]:
    """Yield a label for each change of the number of workers, on which sums and shares of the data depend."""
    sizes = [len(placed.hosts) for placed in facts(events, WorkersPlaced)]
    for was, now in itertools.pairwise(sizes):
        if was != now:
            yield Labelled(NOT_EQUAL, (because("workers-changed", was=was, now=now),))


def _stopped(events: Sequence[Event], exit_code: int | None) -> Iterator[Labelled]:
    """Yield a label if the script exited normally after a request to stop, which cut its training short."""
    newest = max((event.attempt for event in events), default=0)
    decided = last([event for event in events if event.attempt == newest], Decided)
    ending = (decided and decided.ending) or {}
    asked = bool(ending.get("stopped") or ending.get("interrupted"))
    if exit_code == 0 and (asked or interrupted(events, newest)) and is_guarded(events):
        yield Labelled(NOT_EQUAL, (because("asked-to-stop"),))


def _loops(events: Sequence[Event]) -> Iterator[Labelled]:
    """Yield the label of the script's own loops. A loop that oomph did not save starts over."""
    looped = pairs(events, LoopSeen)
    trained = {event.attempt for event, _ in looped}
    resumed = {event.attempt for event, loop in looped if loop.restored}
    lost = min((event.attempt for event, ended in pairs(events, AttemptEnded) if ended.steps), default=None)
    if lost is not None and any(attempt > lost for attempt in trained - resumed):
        yield Labelled(STARTED_OVER)
    elif lost is not None and any(attempt > lost for attempt in trained):
        yield Labelled(UNVERIFIED)


def _beyond_the_guard(events: Iterable[Event]) -> Iterator[Labelled]:
    """Yield a label for each loop or call whose training oomph did not guard, even if it guarded others."""
    for event in events:
        match event.fact:
            case LoopSeen(guarded=False, site=site):
                yield Labelled(UNGUARDED, (loop_reason(site),))
            case UnguardedTraining(site=site, kind=kind) if kind in UNGUARDED_KINDS:
                yield Labelled(UNGUARDED, (because("unguarded-kind", site=site, kind=kind),))
            case UnguardedTraining(site=site):
                yield Labelled(UNGUARDED, (because("unguarded", site=site),))


def _outside_fits(events: Sequence[Event]) -> Iterator[Labelled]:
    """Yield labels for steps outside any fit. They recover inside the process, but a restart loses them."""
    newest = max((event.attempt for event in events), default=0)
    for event, trained in pairs(events, TrainedOutsideFit):
        if event.attempt < newest or not is_guarded(events):
            yield Labelled(UNGUARDED, (outside_reason(trained),))


def _caught(events: Sequence[Event]) -> Iterator[Labelled]:
    """Yield labels for out-of-memory errors that the script caught, which may have skipped one of several fits."""
    newest = max((event.attempt for event in events), default=0)
    for event, oom in pairs(events, Oom):
        if oom.phase == "elsewhere" and event.attempt == newest:
            yield Labelled(NOT_EQUAL, (because("oom-caught", site=str(oom.site)),))


def _in_other_processes(events: Sequence[Event]) -> Iterator[Labelled]:
    """Yield labels if only processes that the script started have trained, which are never checkpointed."""
    if not is_guarded(events):
        yield from (Labelled(UNGUARDED, (reason,)) for reason in reasons_elsewhere(events))


def is_guarded(events: Iterable[Event]) -> bool:
    """True if any training in the script's main process was guarded."""
    return any(_is_guarded_training(event) and not event.role.startswith("worker") for event in events)


def reasons_elsewhere(events: Iterable[Event]) -> list[Reason]:
    """Return a reason for each training in a process that the script started, such as a notebook's kernel."""
    kernels: set[tuple[int, str]] = set()
    notebook, found = "notebook.ipynb", []
    for event in events:
        match event.fact:
            case AttemptStarted(command=words):
                outputs = {after for option, after in itertools.pairwise(words) if option == "--output"}
                given = (word for word in words if word.endswith(".ipynb") and word[:1] != "-")
                notebook = next((word for word in given if word not in outputs), notebook)
            case ProcessStarted(argv=argv) if any("ipykernel" in word for word in argv):
                kernels.add((event.attempt, event.role))
        if _is_guarded_training(event) and event.role.startswith("worker"):
            site = str(getattr(event.fact, "site", "")) or "the script"
            if (event.attempt, event.role) in kernels:
                found.append(because("in-a-kernel", site=site, notebook=notebook))
            else:
                found.append(because("in-another-process", site=site))
    return list(dict.fromkeys(found))


def _is_guarded_training(event: Event) -> bool:
    return isinstance(event.fact, FitStarted) or getattr(event.fact, "guarded", False)


def outside_reason(trained: TrainedOutsideFit) -> Reason:
    """Return the reason why steps that are recovered in process are not resumed."""
    return because("keras-2-fit" if trained.kind == "keras-2" else "outside-fit", site=trained.site)


def unguarded_loops(events: Iterable[Event]) -> list[LoopSeen]:
    """Return the script's own loops without `oomph.guard` on their step."""
    return [loop for loop in facts(events, LoopSeen) if not loop.guarded]


def loop_reason(site: str) -> Reason:
    """Return the reason why one of the script's own loops is not resumed."""
    return because("loop-without-steps", site=site)


def _key(event: Event) -> Any:
    """Return a value that identifies the fit that an event is about, based on its key."""
    return event.role.startswith("worker"), getattr(event.fact, "key", None)


def _number(event: Event) -> Any:
    """Return a value that identifies the fit by number, because the key of an edited call is different."""
    return event.role.startswith("worker"), getattr(event.fact, "fit", None)
