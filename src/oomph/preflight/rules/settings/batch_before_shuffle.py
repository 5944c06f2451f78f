"""A shuffle of batches instead of samples."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import SETTINGS, WARNING, Finding, Rule
from oomph.preflight.rules.shapes import BATCHING


def _find(training: Training) -> Iterator[Finding]:
    stages = training.data.stages
    first = max((index for index, stage in enumerate(stages) if stage.inputs != 1), default=0)
    kinds = [stage.kind for stage in stages[first:]]  # what is zipped or mixed may be batched within
    batch = next((index for index, kind in enumerate(kinds) if kind in BATCHING), None)
    if batch is None or "unbatch" in kinds or "shuffle" in kinds[:batch]:
        return
    if "shuffle" in kinds[batch:] and not any(kind in kinds[batch:] for kind in ("window", "flat_map", "interleave")):
        yield Finding(
            "the dataset is batched first and shuffled then: whole batches change places",
            "Shuffle the samples before they are batched",
            "dataset.shuffle(10_000).batch(32)",
        )


RULE = Rule(
    code="CHK310",
    name="batch-before-shuffle",
    severity=WARNING,
    depth=SETTINGS,
    why="The batches change places; which samples are together in one never changes.",
    wrong="dataset.batch(32).shuffle(1000)",
    right="dataset.shuffle(1000).batch(32)",
    find=_find,
)
