"""Summarises a run from its events alone, and describes its result in words. Pure."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from oomph.journal.events import (
    AttemptEnded,
    CellStarted,
    CheckpointFailed,
    CheckpointSaved,
    CheckpointSkipped,
    DataEnded,
    Decided,
    Diagnosed,
    FitFinished,
    LoopSeen,
    NoWitnesses,
    Oom,
    ProbeFailed,
    Recovered,
    RepeatCompared,
    RestartRequested,
    TrainedOutsideFit,
    UnguardedTraining,
)
from oomph.journal.journal import ByKind, Event, by_attempt, elapsed, facts, pairs
from oomph.protocol.reasons import Reason, as_data, because, left_out
from oomph.run.policy.ladder import change_in
from oomph.run.report.attempts import repeats, restarts_of, resumes_of
from oomph.run.report.causes import causes, remedies
from oomph.run.report.found import NOTICE, Found, each_once, findings_of
from oomph.run.report.labels import (
    EXACT,
    FAILED,
    NOT_EQUAL,
    ORDER,
    REPLAYED,
    STARTED_OVER,
    UNVERIFIED,
    VERIFIED,
    Labelled,
    label_of,
    meaning,
    unrecorded,
)
from oomph.run.report.larger_batch import LargerBatch, larger_batch
from oomph.run.report.refused import Refused, refused_in
from oomph.run.report.restarting import seconds_restarting
from oomph.terminal import panel
from oomph.terminal.amounts import as_duration, counted

SCHEMA = 1
UNRELATED = "unrelated"
"""The fault name of a plain Python error in the user's code, which has nothing to do with oomph."""
CUT_OFF, ALL_ENDED = "terminated from outside", "oomph was terminated too"
"""The outcome of an attempt that ended together with oomph, for example by kill -9 of both, or by a power failure."""

_NO_TRAINING = ("evaluate", "predict")
_UNMEASURED = (LoopSeen, TrainedOutsideFit, UnguardedTraining)


@dataclass(frozen=True)
class Checkpoints:
    """The number of checkpoints, and what they cost."""

    count: int = 0
    bytes: int = 0
    """The size of the largest checkpoint, in bytes."""
    seconds: float = 0.0
    share: float = 0.0
    """The share of the wall-clock time spent on checkpoints, from 0 to 1."""
    failed: int = 0
    """The number of checkpoints that could not be written, for example because the disk was full."""


@dataclass(frozen=True)
class Summary:
    """The events of a run that matter, oomph's response to them, and the cost."""

    attempts: int
    faults: Mapping[str, int]
    """Maps the name of each fault to the number of times it occurred."""
    recoveries: int
    """The number of times the script's process itself recovered from a fault."""
    restarts: int
    """The number of restarts by oomph."""
    steps: int
    """The number of steps done, counting repeated steps once."""
    steps_repeated: int
    steps_reached: int
    """The number of steps reached by the end of the last attempt that trained.

    It is lower than `steps` if that attempt ended while it was still repeating steps.
    """
    steps_saved: int
    """The number of steps in the last checkpoint of that attempt."""
    fits_not_kept: int
    """The number of finished fits whose end states were too expensive to keep, so that a resume trains them again."""
    micro_batch: int | None
    """The last micro-batch size used in training, or None if no training batch was split."""
    exactness: str
    """The label of the result compared with an undisturbed run: one of `labels.ORDER`."""
    exit_code: int | None
    seconds: float
    seconds_recovering: float
    """The seconds that the script's process spent recovering, including the 10 s that TensorFlow itself waits."""
    device_peak_bytes: int | None
    host_peak_bytes: int | None
    gave_up: str = ""
    """The reason why oomph gave up, or an empty string if it did not."""
    checkpoints: Checkpoints = field(default_factory=Checkpoints)
    changes: tuple[str, ...] = ()
    """The changes that oomph made after the first attempt, as text."""
    reasons: tuple[Reason, ...] = ()
    """The reasons why the label is not better, causes first."""
    unrecorded: int = 0
    """The number of attempts that are missing from the journal."""
    findings: tuple[Found, ...] = ()
    """The monitor's distinct findings, apart from mere notices."""
    input_wait: float | None = None
    """The share of the step time spent waiting for batches, from 0 to 1, or None if it was not measured."""
    resumes: int = 0
    """The number of times that the user or a scheduler resumed the run with `--resume`."""
    left_out: Reason | None = None
    """The reason that lists the records that `--skip-corrupt` left out, or None if it left out none."""
    cut_off: int = 0
    """The number of attempts that were killed from outside, together with oomph."""
    steps_without_data: int = 0
    """The number of steps that `fit` was asked to run but did not, because the data ran out."""
    device_limit_bytes: int | None = None
    """The amount of device memory that TensorFlow's allocator may use, or None if unknown."""
    larger_batch: LargerBatch | None = None
    """The larger batch that the run leaves room for, or None if it is unknown or only slightly larger."""
    seconds_restarting: float = 0.0
    """The total time, in seconds, from each death to the first new step of the attempt that oomph then started."""
    kernels: bool = False
    """True if the attempts are kernels of a notebook, which a person starts."""
    refused: tuple[Refused, ...] = ()
    """The checkpoints that a resume could not use, such as damaged ones."""

    def __repr__(self) -> str:
        faults = sum(self.faults.values())
        return (
            f"Summary({self.exactness}, exit_code={self.exit_code}, steps={self.steps}, faults={faults},"
            f" recoveries={self.recoveries}, restarts={self.restarts}, seconds={self.seconds:.0f})"
        )

    def __str__(self) -> str:
        faults = [f"{name} {count}×" for name, count in self.faults.items()] or ["no fault"]
        cost = f"{self.recoveries} recovered in the process, {counted(self.restarts, 'restart')}"
        took = f"{counted(self.steps, 'step')} in {as_duration(self.seconds)}"
        return f"{self.exactness}: {took}, {', '.join(faults)}, {cost}"

    def _repr_html_(self) -> str:
        """Return the summary as a panel for notebooks."""
        figures = [
            ("result", result_in_words(self, most_reasons=3) or self.exactness),
            ("faults", ", ".join(f"{name} {count}×" for name, count in self.faults.items())),
            ("micro-batch", "" if self.micro_batch is None else f"{self.micro_batch:,}"),
            ("gave up", self.gave_up),
        ]
        tone = {EXACT: panel.Tone.GOOD, VERIFIED: panel.Tone.GOOD, FAILED: panel.Tone.BAD}
        rows = panel.table((), [row for row in figures if row[1]])
        return panel.panel(str(self), [rows], tone.get(self.exactness, panel.Tone.WARNING))

    @property
    def exactness_reasons(self) -> tuple[str, ...]:
        """The reasons why the label is not better, as text."""
        return tuple(map(str, self.reasons))

    @property
    def eventful(self) -> bool:
        """True if there is more to report than that the run ended."""
        ours = self.restarts or self.recoveries or self.gave_up or self.left_out
        return bool(set(self.faults) - {UNRELATED} or ours or self.resumes or self.cut_off)

    def as_document(self) -> dict[str, Any]:
        """Return the contents of summary.json as a dict."""
        words = {
            "reasons": as_data(self.reasons),
            "exactness_reasons": list(self.exactness_reasons),
            "left_out": "" if self.left_out is None else str(self.left_out),
        }
        return {"schema": SCHEMA, **asdict(self), **words}

    def to_json(self) -> str:
        """Return the contents of summary.json as text."""
        return json.dumps(self.as_document(), indent=2) + "\n"


def summarise(events: Sequence[Event], exit_code: int | None = None) -> Summary:
    """Summarise a run across all its attempts, including those before a `--resume`."""
    by = ByKind(events)
    endings = by.facts(AttemptEnded)
    seconds = sum(_finite(ended.seconds) for ended in endings)
    attempts = {event.attempt for event in events} - {0}  # any event counts, since the first one may be lost
    decided, recovered = by.facts(Decided), by.facts(Recovered)
    gave_up = decided[-1].reason if decided and decided[-1].action in ("give-up", "requeue") else ""
    repeated = sum(each.in_all for each in repeats(events).values())
    labelled = label_of(events, exit_code)
    trained = [(event.attempt, ended) for event, ended in by.pairs(AttemptEnded) if ended.steps]
    number, newest = trained[-1] if trained else (0, AttemptEnded())
    return Summary(
        attempts=len(attempts),
        unrecorded=unrecorded(events),
        faults=_faults(by),
        recoveries=len(recovered),
        restarts=restarts_of(events),
        steps=max((ended.steps for ended in endings), default=0),
        steps_repeated=repeated,
        steps_reached=newest.steps,
        steps_saved=newest.saved,
        fits_not_kept=sum(event.attempt == number and fit.too_dear for event, fit in by.pairs(FitFinished)),
        micro_batch=_micro_batch(events),
        exactness=labelled.label,
        reasons=_reasons(labelled, repeated, events),
        exit_code=exit_code,
        seconds=round(seconds, 3),
        seconds_recovering=round(sum(map(_recovering, by_attempt(events))), 3),
        device_peak_bytes=_device_peak(by),
        device_limit_bytes=_device_limit(by),
        host_peak_bytes=_largest(ended.peak_rss_bytes for ended in endings),
        gave_up=gave_up,
        checkpoints=_checkpoints(by, seconds),
        changes=tuple(str(change) for each in decided if (change := change_in(each)) is not None),
        findings=tuple(each for each in each_once(findings_of(events)) if each.severity != NOTICE),
        input_wait=_input_wait(endings),
        resumes=resumes_of(events),
        kernels=bool(by.events(CellStarted)),
        left_out=left_out(events),
        cut_off=sum(map(was_cut_off, endings)),
        steps_without_data=_without_data(by.facts(DataEnded)),
        larger_batch=larger_batch(events),
        seconds_restarting=round(seconds_restarting(events), 3),
        refused=refused_in(events),
    )


def of_workers(summaries: Sequence[Summary]) -> Summary:
    """Return the first worker's summary with the label of the worst, since the result is only worth as much."""
    worst = max(summaries, key=lambda each: ORDER.index(each.exactness))
    return replace(summaries[0], exactness=worst.exactness, reasons=worst.reasons)


def is_of_training(recovered: Recovered) -> bool:
    """True if the step is a training step. evaluate, predict and `oomph.map_batches` choose their own sizes."""
    return recovered.piece is None and recovered.during not in _NO_TRAINING


def _reasons(labelled: Labelled, repeated: int, events: Sequence[Event]) -> tuple[Reason, ...]:
    if labelled.label == REPLAYED:
        return (*causes(REPLAYED, events), *labelled.reasons)
    if labelled.label == STARTED_OVER:
        found = dict.fromkeys((*causes(STARTED_OVER, events), *labelled.reasons))
        return tuple(sorted(found, key=lambda each: each.rank))
    if labelled.reasons:
        return labelled.reasons
    if labelled.label != UNVERIFIED or not repeated:
        return ()
    return why_uncompared(events) if repeated > _compared(events) else (because("none-repeated"),)


def _compared(events: Iterable[Event]) -> int:
    """Count the repeated steps that were compared."""
    covered: dict[tuple[int, str | None], int] = {}
    for event, found in pairs(events, RepeatCompared):
        at = event.attempt, found.key
        covered[at] = max(covered.get(at, 0), found.covered or 0)
    return sum(covered.values())


def _recovering(attempt: Iterable[Event]) -> float:
    """Return the total time, in seconds, of the steps that ran out of memory, whether or not they recovered.

    Each error reports how long its step has taken so far, including the probes that failed during it. A step that ends
    with a request for a new process lasts until that request.
    """
    total = failed = probed = 0.0
    probed_at = math.inf
    for event in attempt:
        match event.fact:
            case Recovered(seconds=seconds):
                total, failed, probed = total + _finite(seconds), 0.0, 0.0
            case Oom(seconds=seconds):
                if event.time - _finite(seconds) <= probed_at:
                    total -= probed
                probed, probed_at = 0.0, math.inf
                total, failed = total + (failed if seconds < failed else 0.0), _finite(seconds)
            case ProbeFailed(seconds=seconds) if not failed:  # otherwise the step that recovers includes its time
                total, probed = total + _finite(seconds), probed + _finite(seconds)
                probed_at = min(probed_at, event.time)
    return total + failed + seconds_until_restart(attempt)


def seconds_until_restart(attempt: Iterable[Event]) -> float:
    """Return the time, in seconds, from the last out-of-memory error to the request for a new process, or 0."""
    failed_at = math.nan
    for event in attempt:
        match event.fact:
            case Oom():
                failed_at = event.time
            case Recovered():
                failed_at = math.nan
            case RestartRequested():
                return elapsed(failed_at, event.time)
    return 0.0


def was_cut_off(ended: AttemptEnded) -> bool:
    """True if oomph died with the attempt, so that only the next `--resume` could record its end."""
    return ended.returncode is None


def _input_wait(endings: Iterable[AttemptEnded]) -> float | None:
    """Return the mean share of the step time spent waiting for batches.

    This is the average over the attempts that measured it, weighted by their duration.
    """
    known = [(ended.input_wait, _finite(ended.seconds)) for ended in endings if ended.input_wait is not None]
    seconds = sum(seconds for _, seconds in known)
    waited = sum(_finite(share) * seconds for share, seconds in known)
    return round(waited / seconds, 4) if seconds else None


def _finite(number: float) -> float:
    return number if math.isfinite(number) else 0.0  # a journal may be forged


def _largest(values: Iterable[int | None]) -> int | None:
    return max(filter(None, values), default=None)


def _device_peak(by: ByKind) -> int | None:
    """Return the peak device memory of all fits, in bytes, or None if anything else trained, which is not measured."""
    if by.events(*_UNMEASURED):
        return None
    ended = _largest(each.device_peak_bytes for each in by.facts(AttemptEnded))
    return _largest([ended, *(fit.device_peak_bytes for fit in by.facts(FitFinished))])


def _device_limit(by: ByKind) -> int | None:
    """Return the smallest memory limit of any fit, in bytes, or None if unknown."""
    limits = (fit.device_limit_bytes or 0 for fit in by.facts(FitFinished))
    return min((limit for limit in limits if limit > 0), default=None)


def _faults(by: ByKind) -> dict[str, int]:
    """Count every out-of-memory error, and each other fault once for every attempt that it ended.

    A non-finite state counts only once, since training continues with it.
    """
    count: Counter[str] = Counter()
    ooms = [*by.facts(Oom), *by.facts(ProbeFailed)]
    count["device-oom"] += len(ooms)
    for diagnosed in by.facts(Diagnosed):
        if diagnosed.fault and not (diagnosed.fault == "device-oom" and ooms):
            count[diagnosed.fault] += 1
    if by.facts(CheckpointSkipped):
        count["nan-loss"] += 1
    return {name: times for name, times in sorted(count.items()) if times}


def _without_data(ended: Iterable[DataEnded]) -> int:
    """Count the steps that are missing because the data ran out, using the latest report for each epoch."""
    missing = {(each.fit, each.epoch): each.wanted - (each.step or 0) for each in ended}
    return sum(max(0, steps) for steps in missing.values())


def _micro_batch(events: Iterable[Event]) -> int | None:
    """Return the last micro-batch size, in journal order. Times are unreliable if the clock was turned back."""
    found = None
    for event in events:
        match event.fact:
            case FitFinished(micro_batch=int(size)):
                found = size
            case Recovered(micro_batch=int(size)) as recovered if is_of_training(recovered):
                found = size
    return found


def _checkpoints(by: ByKind, seconds: float) -> Checkpoints:
    saved = by.facts(CheckpointSaved)
    spent = sum(_finite(each.seconds) for each in saved)
    return Checkpoints(
        count=len(saved),
        bytes=_largest(each.bytes for each in saved) or 0,
        seconds=round(spent, 3),
        share=round(spent / seconds, 4) if seconds else 0.0,
        failed=len(by.facts(CheckpointFailed)),
    )


# -- why nothing was compared -----------------------------------------------------------------------------------------


def why_uncompared(events: Iterable[Event]) -> tuple[Reason, ...]:
    """Return the distinct reasons why repeated steps were not compared, or a general one if the journal has none."""
    found = [each.reason for each in facts(events, NoWitnesses)]
    unwritten = tuple(because("records-unwritten", error=each) for each in dict.fromkeys(found))
    return unwritten or (because("no-records"),)


def result_in_words(summary: Summary, most_reasons: int | None = None) -> str:
    """Return the label and its reasons, or an empty string unless the script finished, and trained or gave up on it."""
    if summary.exit_code != 0:
        return ""
    if not summary.steps:
        return "; ".join(str(reason) for reason in summary.reasons if reason.code == "oom-caught")
    if not is_finite(summary):
        return "not finite: the weights contain NaN or infinity, or did during training"
    label = meaning(summary.exactness, summary.steps_repeated, summary.reasons)
    told = summary.reasons[:most_reasons]
    more = len(summary.reasons) - len(told)
    return "; ".join((label, *map(str, told), *([f"and {more} more"] if more else [])))


def is_finite(summary: Summary) -> bool:
    """True unless NaN or infinity was seen in the loss or the weights."""
    return "nan-loss" not in summary.faults


def improvement(summary: Summary) -> str:
    """Return a change that would improve the result, or an empty string if there is no result or nothing helps."""
    if not result_in_words(summary):
        return ""
    if summary.steps and summary.exactness not in (NOT_EQUAL, STARTED_OVER, REPLAYED):
        return ""
    if summary.exactness == STARTED_OVER and not summary.reasons:
        return ""
    return remedies(summary.exactness, summary.reasons)[0].text
