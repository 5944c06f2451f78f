"""A loss that is NaN or infinite."""

from __future__ import annotations

import math
from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, STEP, Finding, Rule


def _find(training: Training) -> Iterator[Finding]:
    losses = () if training.trial is None else training.trial.losses
    bad = next((number for number, loss in enumerate(losses, 1) if not math.isfinite(loss)), None)
    if bad == 1:
        yield Finding(
            "the loss of the first step is not finite",
            "Look for logarithms, divisions and square roots of 0 in the loss and the model",
        )
    elif bad is not None:
        yield Finding(
            f"the loss is {losses[0]:.3g} in the first step and not finite in step {bad}, on the same samples",
            "Lower the learning rate, or clip the gradients",
            "keras.optimizers.Adam(1e-3, clipnorm=1.0)",
        )


RULE = Rule(
    code="CHK505",
    name="loss-not-finite",
    severity=ERROR,
    depth=STEP,
    why="Every weight becomes NaN with the first update.",
    wrong="loss = tf.math.log(y_pred)",
    right="loss = tf.math.log(tf.maximum(y_pred, 1e-7))",
    find=_find,
    hides=("weights-not-finite-after-steps", "diverges", "gradient-not-finite"),
    fault="nan-loss",
)
