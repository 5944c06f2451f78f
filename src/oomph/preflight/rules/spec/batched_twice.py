"""A dataset that was batched twice."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, SPEC, Finding, Rule
from oomph.preflight.rules.shapes import agree, batching_stages, in_words


def _find(training: Training) -> Iterator[Finding]:
    for given, part in training.inputs():
        is_long = part.shape is not None and len(part.shape) == len(given.shape) + 1
        if is_long and batching_stages(training.data) > 1 and agree((part.shape or ())[1:], given.shape):
            yield Finding(
                f"{part.name} has the shape {in_words(part.shape)}, the model takes {in_words(given.shape)}: the "
                f"dataset is batched {batching_stages(training.data)} times",
                "Leave one of the calls of batch out",
            )
            return


RULE = Rule(
    code="CHK103",
    name="batched-twice",
    severity=ERROR,
    depth=SPEC,
    why="Each element is a batch of batches, with one dimension too many: the step fails.",
    wrong="dataset.batch(32).map(scale).batch(32)",
    right="dataset.batch(32).map(scale)",
    find=_find,
    hides=("step-fails", "input-shape", "target-shape", "class-numbers-categorical-loss", "one-hot-labels-sparse-loss"),
)
