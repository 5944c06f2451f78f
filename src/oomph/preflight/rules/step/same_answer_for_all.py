"""A model that gives the same answer for every sample, also after steps."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, STEP, Finding, Rule

_SAME = 1e-7
"""Of the largest value: rounding."""


def _find(training: Training) -> Iterator[Finding]:
    trial, model = training.trial, training.model
    samples = [part.sample for part in training.data.of("x") if part.sample is not None]
    varies = any((sample.deviation or 0) > 0 and sample.rows - sample.duplicate_rows > 2 for sample in samples)
    if trial is None or not varies or trial.samples < 4 or not trial.losses or model.own_train_step:
        return
    if trial.differs_in_training:  # only moving statistics that are not trained yet hide the input
        return
    for prediction in trial.predictions:
        size = max(abs(prediction.minimum or 0), abs(prediction.maximum or 0), 1e-12)
        spreads = (prediction.spread, prediction.spread_after)
        if prediction.is_finite and all(spread is not None and spread <= _SAME * size for spread in spreads):
            yield Finding(
                f"the output {prediction.output} is the same for {trial.samples} different samples, before and after "
                f"{len(trial.losses)} step{'s' * (len(trial.losses) != 1)}",
                "Find where the input is lost: a dead layer, a dropout of 1, a saturated activation",
            )


RULE = Rule(
    code="CHK510",
    name="same-answer-for-all",
    severity=ERROR,
    depth=STEP,
    why="What differs between the samples does not reach the output.",
    wrong="Dropout(1.0), or a branch that is multiplied by 0",
    right="a path from the input to the output",
    find=_find,
)
