"""Targets outside of 0 and 1, for a loss that takes probabilities."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, SAMPLE, Finding, Rule
from oomph.preflight.rules.losses import is_binary

_ROUNDING = 1e-3


def _find(training: Training) -> Iterator[Finding]:
    if training.masks_samples:
        return
    for output, target in training.pairs():
        sample = target.sample
        if not is_binary(output.loss) or sample is None or sample.minimum is None or sample.maximum is None:
            continue
        low, high = sample.minimum, sample.maximum
        if low >= -_ROUNDING and high <= 1 + _ROUNDING:
            continue
        seen = f"targets in {target.name} go from {low:g} to {high:g}, and binary_crossentropy takes 0 to 1"
        values = sorted(sample.counts)
        if values == [-1.0, 1.0]:
            yield Finding(seen, "Turn -1 and 1 into 0 and 1", f"{target.name} = ({target.name} + 1) / 2")
        elif len(values) == 2 or high == 255:
            shifted = target.name if low == 0 else f"{target.name} - {low:g}"
            span = high - low
            scaled = shifted if span == 1 else f"{shifted} / {span:g}" if low == 0 else f"({shifted}) / {span:g}"
            yield Finding(seen, "Turn the two values into 0 and 1", f"{target.name} = {scaled}")
        elif values and output.units == 1:
            yield Finding(
                f"{seen}; there are {len(values)} classes, and the output has one unit",
                "Give the output a unit for each class, a softmax and the sparse categorical loss",
                f'Dense({int(high) + 1}, activation="softmax") with loss="sparse_categorical_crossentropy"',
            )
        else:
            yield Finding(seen, "Scale the targets to 0..1, or use a loss for numbers, such as mse")


RULE = Rule(
    code="CHK403",
    name="binary-targets",
    severity=ERROR,
    depth=SAMPLE,
    why="For targets outside 0..1 the loss has no minimum: it can fall below 0 without end.",
    wrong="labels of -1 and 1 with binary_crossentropy",
    right="labels = (labels + 1) / 2",
    find=_find,
    hides=("negative-loss", "diverges"),
)
