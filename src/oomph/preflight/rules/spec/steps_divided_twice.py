"""An epoch of a few batches, because they were divided once more."""

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
                "Leave steps_per_epoch out: the data know their length",
            )
            return


RULE = Rule(
    code="CHK126",
    name="steps-divided-twice",
    severity=WARNING,
    depth=SPEC,
    why="Most of the data are not used: len() of a batched dataset counts batches.",
    wrong="steps_per_epoch=len(dataset) // 32",
    right="steps_per_epoch=len(dataset), or none",
    find=_find,
)
