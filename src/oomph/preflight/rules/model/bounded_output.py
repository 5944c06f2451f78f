"""Targets that the last activation cannot reach."""

from __future__ import annotations

import math
from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, MODEL, Finding, Rule
from oomph.preflight.rules.losses import is_regression

_RANGES = {
    "sigmoid": (0.0, 1.0), "hard_sigmoid": (0.0, 1.0), "tanh": (-1.0, 1.0), "softmax": (0.0, 1.0),
    "relu": (0.0, math.inf), "softplus": (0.0, math.inf), "relu6": (0.0, 6.0), "softsign": (-1.0, 1.0),
}  # fmt: skip
_SLACK = 0.02
"""Of the range of the targets: rounding, and augmentation that goes a little beyond."""


def _find(training: Training) -> Iterator[Finding]:
    if training.masks_samples:
        return
    for output, target in training.pairs():
        sample, limits = target.sample, _RANGES.get(output.activation)
        is_compared = output.loss is not None and is_regression(output.loss)
        if not is_compared or limits is None or sample is None or sample.minimum is None or sample.maximum is None:
            continue
        slack = _SLACK * max(sample.maximum - sample.minimum, 1e-6)
        if sample.minimum < limits[0] - slack or sample.maximum > limits[1] + slack:
            high = "infinity" if limits[1] == math.inf else f"{limits[1]:g}"
            yield Finding(
                f"targets in {target.name} go from {sample.minimum:.4g} to {sample.maximum:.4g}, and the output "
                f"{output.name} ({output.activation}) gives {limits[0]:g} to {high}",
                "Leave the last activation out, or scale the targets into its range",
                f"Dense({output.units or 1})",
            )


RULE = Rule(
    code="CHK207",
    name="bounded-output",
    severity=ERROR,
    depth=MODEL,
    why="The output stays at the end of its range for these samples, where the gradient is 0.",
    wrong='Dense(1, activation="sigmoid") for prices',
    right="Dense(1)",
    find=_find,
)
