"""An epoch that is too short, because the number of batches was divided by the batch size."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import SPEC, WARNING, Finding, Rule


def _find(training: Training) -> Iterator[Finding]:
    data, steps = training.data, training.fit.steps_per_epoch
    lengths = [data.batches, *(stage.elements for stage in data.stages if stage.batch)]
    for batches in lengths:
        if steps is None or batches is None or data.batch is None or data.batch < 2 or batches <= data.batch:
            continue
        if steps in (batches // data.batch, -(-batches // data.batch)):
            yield Finding(
                f"an epoch has {steps:,} steps, and the data {batches:,} batches of {data.batch}: they were divided by "
                "the batch size once more",
                "Leave steps_per_epoch out: the dataset knows its length",
            )
            return


RULE = Rule(
    code="CHK126",
    name="steps-divided-twice",
    severity=WARNING,
    depth=SPEC,
    why="len() of a batched dataset counts batches already, so most of the data is never used.",
    wrong="steps_per_epoch=len(dataset) // 32",
    right="steps_per_epoch=len(dataset), or none",
    find=_find,
)
