"""Targets that the loss is not made for."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, SAMPLE, Finding, Rule

_NOT_NEGATIVE = ("poisson", "kl_divergence", "mean_squared_logarithmic_error")


def _find(training: Training) -> Iterator[Finding]:
    for output, target in training.pairs():
        sample, loss = target.sample, output.loss
        if sample is None or loss is None or sample.minimum is None or not loss.is_keras:
            continue
        if loss.kind in _NOT_NEGATIVE and sample.minimum < 0:
            yield Finding(
                f"{loss.kind} takes targets of 0 and more, and {target.name} goes down to {sample.minimum:.4g}",
                "Use mse or mae",
                'loss="mse"',
            )
        elif loss.kind == "mean_absolute_percentage_error" and sample.zero_share > 0:
            yield Finding(
                f"{sample.zero_share:.1%} of the targets in {target.name} are 0, and the loss divides by them",
                "Use mae, or leave zeros out",
                'loss="mae"',
            )


RULE = Rule(
    code="CHK419",
    name="loss-needs-range",
    severity=ERROR,
    depth=SAMPLE,
    why="Logarithms of negative numbers are NaN or cut off; a percentage of 0 is infinite.",
    wrong='loss="poisson" with negative targets',
    right='loss="mse"',
    find=_find,
)
