"""A layer that is 0 for every sample."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, STEP, WARNING, Finding, Rule

_MOST_DEAD = 0.9
"""At the usual initialisation about half of the values of a unit are 0, and hardly any unit is 0 for all samples."""
_FEWEST_UNITS = 8
_FEWEST_SAMPLES = 8


def _find(training: Training) -> Iterator[Finding]:
    trial = training.trial
    if trial is None or trial.samples < _FEWEST_SAMPLES:
        return
    for activity in trial.activities:
        layer = training.model.layer(activity.layer)
        if layer is None or not activity.is_finite:
            continue
        units = (layer.output_shape or (None,))[-1] or layer["units"] or layer["filters"] or 0
        if activity.dead_share == 1.0:
            yield Finding(
                f"all of {layer.name} is 0 for all of {trial.samples} samples: nothing passes through it",
                "Check its bias, its initialiser and the scale of its input",
                severity=ERROR,
            )
            return
        if activity.dead_share > _MOST_DEAD and units >= _FEWEST_UNITS:
            yield Finding(
                f"{activity.dead_share:.0%} of the units of {layer.name} are 0 for all of {trial.samples} samples",
                "Normalise its inputs, or use a leaky ReLU",
            )


RULE = Rule(
    code="CHK504",
    name="dead-relu",
    severity=WARNING,
    depth=STEP,
    why=("ReLU has no gradient below 0: such units never come back. With a whole layer dead the output is constant."),
    wrong='Dense(64, activation="relu", bias_initializer=Constant(-10))',
    right='Dense(64, activation="relu")',
    find=_find,
    hides=("zero-gradients", "same-answer-for-all"),
)
