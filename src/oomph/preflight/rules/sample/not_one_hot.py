"""Targets that are no distribution over the classes."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, SAMPLE, WARNING, Finding, Rule
from oomph.preflight.rules.losses import is_categorical

_ROUNDING = 0.02


def _find(training: Training) -> Iterator[Finding]:
    if training.masks_samples:
        return
    for output, target in training.pairs():
        sample = target.sample
        if not is_categorical(output.loss) or sample is None or sample.row_sums is None or (output.units or 0) < 2:
            continue
        if target.shape is None or target.shape[-1] != output.units:
            continue
        low, high = sample.row_sums
        if high > 1 + _ROUNDING and sample.zero_one:
            yield Finding(
                f"rows of {target.name} hold up to {high:g} ones: several classes at a time, for a loss of "
                "exclusive classes",
                "Use a sigmoid for each class, and binary_crossentropy",
                f'Dense({output.units}, activation="sigmoid") with loss="binary_crossentropy"',
            )
        elif high > 1 + _ROUNDING or low < -_ROUNDING:
            yield Finding(
                f"rows of {target.name} add up to {low:.3g} to {high:.3g}, not to 1",
                "Give one value for each class, which add up to 1",
            )
        elif low < 1 - _ROUNDING and len(target.shape) == 2:
            yield Finding(
                f"some rows of {target.name} add up to {low:.3g}: they name no class, and their loss is 0",
                "Leave these samples out, or give them a class of their own",
                severity=WARNING,
            )


RULE = Rule(
    code="CHK418",
    name="not-one-hot",
    severity=ERROR,
    depth=SAMPLE,
    why=(
        "categorical_crossentropy adds up the classes of a row. A row of zeros teaches nothing; with "
        "several ones a softmax can reach none of them."
    ),
    wrong="rows with several ones and a softmax",
    right="sigmoid units and binary_crossentropy",
    find=_find,
)
