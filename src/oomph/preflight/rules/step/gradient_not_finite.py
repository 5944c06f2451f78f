"""A gradient that is NaN or infinite while the loss is finite."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, STEP, Finding, Rule


def _find(training: Training) -> Iterator[Finding]:
    gradients = () if training.trial is None else training.trial.gradients
    bad = [gradient.name for gradient in gradients if not gradient.is_finite]
    if bad:
        yield Finding(
            f"the gradients of {len(bad)} weights are not finite in the first step, such as that of {bad[0]}",
            "Look for sqrt, norm, log and division at 0: add a small number inside",
        )


RULE = Rule(
    code="CHK506",
    name="gradient-not-finite",
    severity=ERROR,
    depth=STEP,
    why=("The first update makes the weights NaN. The square root and the norm have no finite gradient at 0."),
    wrong="distance = tf.sqrt(tf.reduce_sum(difference ** 2))",
    right="distance = tf.sqrt(tf.reduce_sum(difference ** 2) + 1e-12)",
    find=_find,
    hides=("weights-not-finite-after-steps", "diverges"),
    fault="nan-loss",
)
