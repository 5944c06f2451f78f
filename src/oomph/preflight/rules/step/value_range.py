"""An augmentation layer that expects another range of values."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, STEP, Finding, Rule


def _find(training: Training) -> Iterator[Finding]:
    for each in () if training.trial is None else training.trial.ranges:
        wide, span = each.told[1] - each.told[0], each.high - each.low
        if span > 0 and (wide > 20 * span or span > 20 * wide):
            yield Finding(
                f"{each.layer} expects values from {each.told[0]:g} to {each.told[1]:g}, and gets {each.low:.3g} to "
                f"{each.high:.3g}",
                "Tell it the range of the images",
                "value_range=(0, 1)" if each.high <= 1.5 else "value_range=(0, 255)",
            )


RULE = Rule(
    code="CHK517",
    name="value-range",
    severity=ERROR,
    depth=STEP,
    why="The layer changes images by a share of the range it expects: images in 0..1 become noise, or do not change.",
    wrong="Rescaling(1 / 255), RandomBrightness(0.3)",
    right="Rescaling(1 / 255), RandomBrightness(0.3, value_range=(0, 1))",
    find=_find,
)
