"""A training that waits for its data."""

from collections.abc import Iterator

from oomph.preflight.facts.pipeline import StageCost, Waiting
from oomph.preflight.facts.training import Training
from oomph.preflight.rule import PIPELINE, WARNING, Finding, Rule

_MUCH = 0.2
"""The share of the time from which waiting is worth a change; below 0.05 it is noise. As the monitor has it."""
_SURE_STEPS = 4
_LONG_SECONDS = 0.01
"""For one batch: below it the overhead of the call of a step is as long."""
_LONG_IN_ALL = 60.0
"""For the whole training."""


def _find(training: Training) -> Iterator[Finding]:
    waiting = training.waiting
    if waiting is None or waiting.share < _MUCH or waiting.steps < _SURE_STEPS or not _matters(waiting, training):
        return
    slowest = waiting.slowest
    facts = (
        f"steps wait for their batches {waiting.share:.0%} of the time: {waiting.wait_seconds * 1000:.0f} ms, beside "
        f"{waiting.step_seconds * 1000:.0f} ms of training"
    )
    if slowest is not None:
        facts += f"; {_in_words(slowest)} takes {slowest.seconds * 1000:.0f} ms of each batch"
    yield Finding(facts, *_remedy(waiting, training), where=slowest.place if slowest is not None else "")


def _matters(waiting: Waiting, training: Training) -> bool:
    """Whether a change could save time worth having."""
    steps = training.fit.steps
    return waiting.wait_seconds >= _LONG_SECONDS or (steps is not None and waiting.wait_seconds * steps >= _LONG_IN_ALL)


def _in_words(cost: StageCost) -> str:
    function = f" {cost.function}" if cost.function not in ("", "<lambda>") else ""
    return f"{cost.kind}{function}" + (f" at {cost.place}" if cost.place else "")


def _remedy(waiting: Waiting, training: Training) -> tuple[str, str]:
    if waiting.changes:
        best = waiting.changes[0]
        same = f", and its first {best.same_batches} batches are the same" if best.same_batches else ""
        note = f"; {best.note}" if best.note else ""
        return f"Tried here, a step is {best.gain:.2f} times as fast{same}{note}", best.line
    if waiting.tried:
        return (
            "No change that was tried here made it faster by a tenth: decode less, or prepare the data beforehand",
            "",
        )
    stages = {stage.kind: stage for stage in training.data.stages}
    if "map" in stages and not stages["map"].is_parallel:
        return "Let the map run in parallel; oomph check --tune measures whether it pays", (
            ".map(..., num_parallel_calls=tf.data.AUTOTUNE)"
        )
    return "oomph check --tune tries what makes it faster", ""


RULE = Rule(
    code="CHK601",
    name="input-bound",
    severity=WARNING,
    depth=PIPELINE,
    why="The accelerator does nothing while it waits. On a faster device the share only grows.",
    wrong="dataset.map(decode).batch(32)",
    right="dataset.map(decode, num_parallel_calls=tf.data.AUTOTUNE).batch(32).prefetch(tf.data.AUTOTUNE)",
    find=_find,
    fault="input-pipeline",
    source="tf.data: a machine learning data processing framework, arXiv:2101.12127",
)
