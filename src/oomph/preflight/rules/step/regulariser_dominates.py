"""Added losses that are far larger than the loss of the data."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import STEP, WARNING, Finding, Rule

_TIMES = 10.0


def _find(training: Training) -> Iterator[Finding]:
    trial = training.trial
    if trial is None or not trial.losses or training.model.own_train_step:
        return
    if all(output.loss is None for output in training.model.outputs):
        return  # all of the loss is added, as by a variational autoencoder
    of_data = trial.losses[0] - trial.added_loss
    if of_data > 0 and trial.added_loss > _TIMES * of_data:
        yield Finding(
            f"regularisation adds {trial.added_loss:.3g} to a loss of {of_data:.3g}",
            "Make the factors of the regularisers smaller",
            "keras.regularizers.L2(1e-4)",
        )


RULE = Rule(
    code="CHK511",
    name="regulariser-dominates",
    severity=WARNING,
    depth=STEP,
    why="The weights shrink towards 0 before anything is learnt from the data.",
    wrong="Dense(64, kernel_regularizer=keras.regularizers.L2(1.0))",
    right="Dense(64, kernel_regularizer=keras.regularizers.L2(1e-4))",
    find=_find,
)
