"""Augmentation of the validation data."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.data import Data
from oomph.preflight.facts.training import Training
from oomph.preflight.rule import SETTINGS, WARNING, Finding, Rule


def _find(training: Training) -> Iterator[Finding]:
    held = training.validation
    drawn = next((stage for stage in held.stages if stage.is_random and stage.kind == "map"), None) if held else None
    if drawn is not None and held is not None and not _is_restored(held):
        named = f" {drawn.function}" if drawn.function not in ("", "<lambda>") else ""
        yield Finding(
            f"the validation data pass through a map{named} that draws random numbers",
            "Augment the training data only",
            where=drawn.place,
        )


def _is_restored(data: Data) -> bool:
    """Whether inputs and targets have the same shape, as in denoising."""
    return any(x.shape == y.shape and len(x.shape or ()) > 1 for x, y in zip(data.of("x"), data.of("y"), strict=False))


RULE = Rule(
    code="CHK313",
    name="random-validation",
    severity=WARNING,
    depth=SETTINGS,
    why="The figures are of other images than the model will see, and jump from epoch to epoch.",
    wrong="validation.map(augment)",
    right="validation",
    find=_find,
)
