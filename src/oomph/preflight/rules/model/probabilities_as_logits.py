"""Probabilities that the loss takes for logits."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, MODEL, WARNING, Finding, Rule
from oomph.preflight.rules.losses import is_crossentropy

_FAR, _SHARE = 0.2, 0.02


def _find(training: Training) -> Iterator[Finding]:
    yield from _own(training)
    for output in training.model.outputs:
        loss = output.loss
        if loss is None or not is_crossentropy(loss) or not loss.from_logits:
            continue
        found = training.prediction(output)
        is_distribution = found is not None and found.sums_to_one and output.activation == ""
        if output.activation in ("softmax", "sigmoid") or is_distribution:
            yield Finding(
                f"the output {output.name} holds probabilities already "
                f"({output.activation or 'its rows sum to 1'}), and "
                f"{loss.kind} is told that they are logits",
                "Leave the last activation out, or from_logits=True",
                severity=ERROR if is_distribution else WARNING,
            )


def _own(training: Training) -> Iterator[Finding]:
    """Losses of the user's own: that of the right probabilities is large, and nearly 0 for large logits only."""
    for order in () if training.trial is None else training.trial.orders:
        far = order.as_logits
        if far is not None and 0 <= far < _FAR * order.right and order.right > _SHARE * order.wrong > 0:
            yield Finding(
                f"the output {order.output} holds probabilities already, and {order.loss} takes them for logits: it "
                f"gives {order.right:.3g} for the right answer, and {far:.2g} only for values that no probability has",
                "Leave the last activation out, or the one in the loss",
            )


RULE = Rule(
    code="CHK204",
    name="probabilities-as-logits",
    severity=WARNING,
    depth=MODEL,
    why=(
        "Softmax is applied twice: differences between classes shrink, and training is slow. Keras "
        "undoes it, with a warning, only where it sees the activation right before the loss."
    ),
    wrong='Dense(10, activation="softmax") with from_logits=True',
    right="Dense(10) with from_logits=True",
    find=_find,
)
