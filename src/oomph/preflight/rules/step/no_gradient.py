"""A loss that does not depend on the weights."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, STEP, WARNING, Finding, Rule


def _find(training: Training) -> Iterator[Finding]:
    gradients = () if training.trial is None else training.trial.gradients
    missing = [gradient for gradient in gradients if gradient.is_missing]
    if not missing:
        return
    if len(missing) == len(gradients):
        yield Finding(
            f"the loss depends on none of the {len(gradients)} trained weights",
            "Use differentiable operations in the loss: no argmax, round, cast to integers or NumPy",
        )
        return
    layers = list(dict.fromkeys(gradient.layer or gradient.name for gradient in missing))
    yield Finding(
        f"the loss does not depend on {len(missing)} of the {len(gradients)} trained weights: those of "
        f"{', '.join(layers[:4])}",
        "Connect these layers to the output, or set their trainable to False",
        severity=WARNING,
    )


RULE = Rule(
    code="CHK502",
    name="no-gradient",
    severity=ERROR,
    depth=STEP,
    why=(
        'Keras fails with "No gradients provided", or trains the other weights only. argmax, round, '
        "casts to integers and NumPy have no gradient."
    ),
    wrong="loss = tf.cast(y_true != tf.argmax(y_pred, -1), tf.float32)",
    right="a loss of differentiable operations, such as a cross-entropy",
    find=_find,
    hides=("zero-gradients", "step-fails"),
    fault="no-gradients",
)
