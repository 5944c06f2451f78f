"""A loss that grows by orders of magnitude on the same samples."""

from __future__ import annotations

import math
from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, STEP, Finding, Rule

_TIMES = 30.0
"""Adam's first steps raise a loss by less than 3 at any rate that learns."""


def _find(training: Training) -> Iterator[Finding]:
    trial = training.trial
    if trial is None or len(trial.losses) < 3 or training.model.own_train_step:
        return
    first, last = trial.losses[0], trial.losses[-1]
    if math.isfinite(last) and last > _TIMES * max(abs(first), 1e-3) and last == max(trial.losses):
        rate = training.model.optimizer.learning_rate
        at = f" at a learning rate of {rate:g}" if rate is not None else ""
        yield Finding(
            f"the loss goes from {first:.3g} to {last:.3g} in {len(trial.losses)} steps on the same samples{at}",
            "Lower the learning rate, or scale inputs and targets to about 1",
        )


RULE = Rule(
    code="CHK508",
    name="diverges",
    severity=ERROR,
    depth=STEP,
    why=("A step that is too long ends farther from the minimum than it began; each one makes it worse."),
    wrong="keras.optimizers.SGD(10.0)",
    right="keras.optimizers.SGD(0.01)",
    find=_find,
)
