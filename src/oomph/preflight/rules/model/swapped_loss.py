"""A loss that gets the prediction first."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, MODEL, Finding, Rule


def _find(training: Training) -> Iterator[Finding]:
    kind = training.model.swapped_loss
    if "crossentropy" in kind or "divergence" in kind:
        yield Finding(
            f"{kind} is called with the model's output first, and Keras losses take the target first",
            "Swap the arguments",
            "loss = loss_fn(labels, predictions)",
        )


RULE = Rule(
    code="CHK235",
    name="swapped-loss",
    severity=ERROR,
    depth=MODEL,
    why="The logarithm is taken of the labels: the loss is wrong, and so is the gradient.",
    wrong="loss = loss_fn(predictions, labels)",
    right="loss = loss_fn(labels, predictions)",
    find=_find,
)
