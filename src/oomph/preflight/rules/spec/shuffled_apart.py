"""Inputs and targets that are shuffled separately."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.model import Shape
from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, SPEC, Finding, Rule


def _find(training: Training) -> Iterator[Finding]:
    targets = training.data.of("y")
    if not training.data.shuffled_apart or not targets or any(_may_be_unpaired(part.shape) for part in targets):
        return
    yield Finding(
        "inputs and targets are shuffled separately and then zipped, so inputs lose their targets",
        "Zip first, then shuffle",
        "tf.data.Dataset.zip((inputs, targets)).shuffle(1000)",
    )


def _may_be_unpaired(shape: Shape | None) -> bool:
    """Whether it may be an image of another domain, as of a CycleGAN, and no target."""
    return shape is None or len(shape) > 2


RULE = Rule(
    code="CHK125",
    name="shuffled-apart",
    severity=ERROR,
    depth=SPEC,
    why="Inputs say nothing about their targets any more, so the model can only learn the average target.",
    wrong="zip((images.shuffle(1000), labels.shuffle(1000)))",
    right="zip((images, labels)).shuffle(1000)",
    find=_find,
)
