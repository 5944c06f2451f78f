"""Targets far from 1."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import SAMPLE, WARNING, Finding, Rule
from oomph.preflight.rules.losses import is_regression

_LARGE = 1000.0
_SCALES = ("Rescaling", "Normalization", "Lambda", "Multiply")


def _find(training: Training) -> Iterator[Finding]:
    for output, target in training.pairs():
        sample = target.sample
        if (
            output.loss is None
            or not is_regression(output.loss)
            or output.activation not in ("linear", "relu", "softplus")
        ):
            continue
        if output.loss.kind.startswith(("mean_squared_log", "mean_absolute_perc")) or sample is None:
            continue
        if any(layer.kind in _SCALES or not layer.is_keras for layer in training.model.layers[-2:]):
            continue
        size = max(abs(sample.mean or 0), sample.deviation or 0)
        if size > _LARGE:
            yield Finding(
                f"targets in {target.name} have a mean of {sample.mean:.4g} and a deviation of "
                f"{sample.deviation:.4g}; the "
                f"output begins at about 0",
                "Train on scaled targets, and scale the predictions back",
                f"{target.name} = ({target.name} - {target.name}.mean()) / {target.name}.std()",
            )


RULE = Rule(
    code="CHK412",
    name="target-scale",
    severity=WARNING,
    depth=SAMPLE,
    why=(
        "The output begins at about 0, and Adam moves it by about the learning rate in each step: a "
        "target of 300,000 is millions of steps away."
    ),
    wrong="model.fit(x, prices)",
    right="model.fit(x, (prices - mean) / deviation)",
    find=_find,
    hides=("diverges",),
)
