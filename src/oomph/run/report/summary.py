"""The summary of a run, computed from its events alone. Pure."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from oomph.journal.journal import Event, by_name
from oomph.protocol.left_out import left_out
from oomph.protocol.reasons import Reason, as_data
from oomph.run.policy.ladder import change_in
from oomph.run.report.causes import causes
from oomph.run.report.found import NOTICE, Found, each_once, findings_of
from oomph.run.report.labels import REPLAYED, UNVERIFIED, Labelled, label_of, unrecorded
from oomph.run.report.larger_batch import LargerBatch, larger_batch
from oomph.run.report.repeats import repeats
from oomph.run.report.starts import restarts_of, resumes_of
from oomph.run.report.uncompared import why_uncompared
from oomph.terminal.amounts import counted

SCHEMA = 1
UNRELATED = "unrelated"
"""The fault name of a plain Python error in the user's code, which is not oomph's concern."""
CUT_OFF, ALL_ENDED = "ended from outside", "oomph was ended too"
"""The outcome of an attempt that was ended together with oomph, as by kill -9 of both, or a power failure."""

_NO_TRAINING = ("evaluate", "predict")


@dataclass(frozen=True)
class Checkpoints:
    """The cost of checkpoints."""

    count: int = 0
    bytes: int = 0
    """The size of the largest checkpoint."""
    seconds: float = 0.0
    share: float = 0.0
    """The share of the wall time, 0 to 1."""
    failed: int = 0
    """Checkpoints that could not be written, as on a full disk."""


@dataclass(frozen=True)
class Summary:
    """The events of a run, the measures that oomph took, and their cost."""

    attempts: int
    faults: Mapping[str, int]
    """The number of occurrences of each fault, by name."""
    recoveries: int
    """Faults recovered from inside the script's process."""
    restarts: int
    """The number of restarts by oomph."""
    steps: int
    """Steps done; repeated steps count once."""
    steps_repeated: int
    steps_saved: int
    """Steps up to the last checkpoint."""
    micro_batch: int | None
    """The last micro-batch of a training; None when no batch of a training was split."""
    exactness: str
    """The relation of the result to that of an undisturbed run: one of `labels.ORDER`."""
    exit_code: int | None
    seconds: float
    seconds_recovering: float
    """Time spent on faults inside the script's process, including TensorFlow's own wait of 10 s."""
    device_peak_bytes: int | None
    host_peak_bytes: int | None
    gave_up: str = ""
    """The reason oomph gave up, or empty."""
    checkpoints: Checkpoints = field(default_factory=Checkpoints)
    changes: tuple[str, ...] = ()
    """The changes that oomph made after the first attempt, in words."""
    reasons: tuple[Reason, ...] = ()
    """The reasons the label is not a better one, causes first."""
    unrecorded: int = 0
    """Attempts that are missing from the journal."""
    findings: tuple[Found, ...] = ()
    """The findings of the monitor, apart from mere notices, each once."""
    input_wait: float | None = None
    """The share of the step time that went to waiting for batches, 0 to 1; None where it was not measured."""
    resumes: int = 0
    """The number of times that the user, or a scheduler, resumed the run with `--resume`."""
    left_out: Reason | None = None
    """The records that `--skip-corrupt` left out, None when nothing was."""
    cut_off: int = 0
    """Attempts that were ended together with oomph, from outside."""
    steps_without_data: int = 0
    """Steps that `fit` was asked for and did not do, because its data ran out."""
    larger_batch: LargerBatch | None = None
    """The factor by which its batches could grow; None if unknown or small."""

    def __repr__(self) -> str:
        faults = sum(self.faults.values())
        return (
            f"Summary({self.exactness}, exit_code={self.exit_code}, steps={self.steps}, faults={faults},"
            f" recoveries={self.recoveries}, restarts={self.restarts}, seconds={self.seconds:.0f})"
        )

    def __str__(self) -> str:
        faults = [f"{name} {count}×" for name, count in self.faults.items()] or ["no fault"]
        cost = f"{self.recoveries} recovered in the process, {counted(self.restarts, 'restart')}"
        return f"{self.exactness}: {counted(self.steps, 'step')} in {self.seconds:.0f} s, {', '.join(faults)}, {cost}"

    @property
    def exactness_reasons(self) -> tuple[str, ...]:
        """The reasons in words."""
        return tuple(map(str, self.reasons))

    @property
    def eventful(self) -> bool:
        """True if there is more to report than the end of the run."""
        ours = self.restarts or self.recoveries or self.gave_up or self.left_out
        return bool(set(self.faults) - {UNRELATED} or ours or self.resumes or self.cut_off)

    def as_document(self) -> dict[str, Any]:
        """The document of summary.json."""
        words = {
            "reasons": as_data(self.reasons),
            "exactness_reasons": list(self.exactness_reasons),
            "left_out": "" if self.left_out is None else str(self.left_out),
        }
        return {"schema": SCHEMA, **asdict(self), **words}

    def to_json(self) -> str:
        """The document as text."""
        return json.dumps(self.as_document(), indent=2) + "\n"


def summarise(events: Sequence[Event], exit_code: int | None = None) -> Summary:
    """The summary of a run over all its attempts, including those before a `--resume`."""
    by = by_name(events)
    endings = by.get("attempt-ended", [])
    seconds = sum(_number(event, "seconds") for event in endings)
    attempts = {event.attempt for event in events} - {0}  # from any event: the first may be lost
    decided = by.get("decided", [])
    stopped = ("give-up", "requeue")
    gave_up = decided[-1].data.get("reason") if decided and decided[-1].data.get("action") in stopped else ""
    repeated = sum(each.in_all for each in repeats(events).values())
    labelled = label_of(events, exit_code)
    return Summary(
        attempts=len(attempts),
        unrecorded=unrecorded(events),
        faults=_faults(by),
        recoveries=len(by.get("recovered", [])),
        restarts=restarts_of(events),
        steps=max((int(_number(event, "steps")) for event in endings), default=0),
        steps_repeated=repeated,
        steps_saved=max((int(_number(event, "saved")) for event in endings), default=0),
        micro_batch=_micro_batch(events),
        exactness=labelled.label,
        reasons=_reasons(labelled, repeated, events),
        exit_code=exit_code,
        seconds=round(seconds, 3),
        seconds_recovering=round(sum(_number(event, "seconds") for event in by.get("recovered", [])), 3),
        device_peak_bytes=_largest(by.get("fit-finished", []), "device_peak_bytes"),
        host_peak_bytes=_largest(endings, "peak_rss_bytes"),
        gave_up=str(gave_up),
        checkpoints=_checkpoints(by, seconds),
        changes=tuple(str(change) for event in decided if (change := change_in(event.data)) is not None),
        findings=tuple(each for each in each_once(findings_of(events)) if each.severity != NOTICE),
        input_wait=_input_wait(endings),
        resumes=resumes_of(events),
        left_out=left_out(events),
        cut_off=sum(map(was_cut_off, endings)),
        steps_without_data=_without_data(by.get("data-ended", [])),
        larger_batch=larger_batch(events),
    )


def recovered_training(event: Event) -> bool:
    """True if a step that trains was recovered: evaluate, predict and `oomph.map_batches` find sizes of their own."""
    return event.name == "recovered" and "piece" not in event.data and event.data.get("during") not in _NO_TRAINING


def _reasons(labelled: Labelled, repeated: int, events: Sequence[Event]) -> tuple[Reason, ...]:
    if labelled.label == REPLAYED:
        return (*causes(REPLAYED, events), *labelled.reasons)
    if labelled.reasons:
        return labelled.reasons
    return why_uncompared(events) if labelled.label == UNVERIFIED and repeated else ()


def was_cut_off(ended: Event) -> bool:
    """True if oomph ended with the attempt, so that only the next `--resume` could record its end."""
    return ended.name == "attempt-ended" and ended.data.get("returncode", 0) is None


def _input_wait(endings: Iterable[Event]) -> float | None:
    """Over the attempts in which it was measured, weighted by their time."""
    known = [event for event in endings if isinstance(event.data.get("input_wait"), int | float)]
    seconds = sum(_number(event, "seconds") for event in known)
    waited = sum(_number(event, "input_wait") * _number(event, "seconds") for event in known)
    return round(waited / seconds, 4) if seconds else None


def _number(event: Event, key: str) -> float:
    value = event.data.get(key)
    return value if isinstance(value, (int, float)) else 0


def _largest(events: Iterable[Event], key: str) -> int | None:
    return max((int(_number(event, key)) for event in events if event.data.get(key)), default=None)


def _faults(by: Mapping[str, list[Event]]) -> dict[str, int]:
    """Counts every out-of-memory error, and every other fault once for each attempt that it ended.

    A state that was not finite counts once: training continues with it.
    """
    count: Counter[str] = Counter()
    told = by.get("oom", [])
    count["device-oom"] += len(told)
    for event in by.get("diagnosed", []):
        name = event.data.get("fault")
        if isinstance(name, str) and not (name == "device-oom" and told):
            count[name] += 1
    if by.get("checkpoint-skipped"):
        count["nan-loss"] += 1
    return {name: times for name, times in sorted(count.items()) if times}


def _without_data(events: Iterable[Event]) -> int:
    """The last word on each epoch counts: a restart repeats one."""
    missing = {
        (event.data.get("fit"), event.data.get("epoch")): _number(event, "wanted") - _number(event, "step")
        for event in events
    }
    return int(sum(max(0, steps) for steps in missing.values()))


def _micro_batch(events: Iterable[Event]) -> int | None:
    """The last one in journal order: times are not reliable if the clock was set back."""
    of_training = (event for event in events if event.name == "fit-finished" or recovered_training(event))
    values = [event.data.get("micro_batch") for event in of_training]
    known = [value for value in values if isinstance(value, int)]
    return known[-1] if known else None


def _checkpoints(by: Mapping[str, list[Event]], seconds: float) -> Checkpoints:
    events = by.get("checkpoint", [])
    spent = sum(_number(event, "seconds") for event in events)
    return Checkpoints(
        count=len(events),
        bytes=_largest(events, "bytes") or 0,
        seconds=round(spent, 3),
        share=round(spent / seconds, 4) if seconds else 0.0,
        failed=len(by.get("checkpoint-failed", [])),
    )
