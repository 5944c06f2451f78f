"""Hidden sigmoid or tanh layers that begin at the ends of their range."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import STEP, WARNING, Finding, Rule

_SHARE = 0.9
"""At the usual initialisation and input of about 1 less than 1 % of the values are there."""


def _find(training: Training) -> Iterator[Finding]:
    activities = () if training.trial is None else training.trial.activities
    outputs = {output.layer.name for output in training.model.outputs if output.layer is not None}
    for activity in activities:
        layer = training.model.layer(activity.layer)
        if activity.saturated_share > _SHARE and activity.layer not in outputs and layer is not None:
            yield Finding(
                f"{activity.saturated_share:.0%} of the output of {activity.layer} is at the ends of its "
                f"{layer['activation']}",
                "Normalise the input to about 1",
                "keras.layers.Normalization()",
            )
            return


RULE = Rule(
    code="CHK513",
    name="saturated-layers",
    severity=WARNING,
    depth=STEP,
    why="There the gradient is next to 0: learning takes ages. The usual cause is unscaled input.",
    wrong='Dense(64, activation="tanh") on prices of 10,000',
    right="normalised input",
    find=_find,
)
