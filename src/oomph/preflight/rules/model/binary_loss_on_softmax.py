"""A binary loss on a softmax."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import MODEL, WARNING, Finding, Rule
from oomph.preflight.rules.losses import is_binary


def _find(training: Training) -> Iterator[Finding]:
    for output in training.model.outputs:
        if output.activation == "softmax" and (output.units or 0) > 1 and is_binary(output.loss):
            yield Finding(
                f"the output {output.name} is a softmax over {output.units} classes, and binary_crossentropy "
                "takes each "
                "unit as a separate question",
                "Use categorical_crossentropy, or sparse_categorical_crossentropy for numbers of classes",
                'loss="categorical_crossentropy"',
            )


RULE = Rule(
    code="CHK205",
    name="binary-loss-on-softmax",
    severity=WARNING,
    depth=MODEL,
    why=(
        "The loss treats each class as a separate question, and accuracy counts single zeros: 0.9 for ten "
        "classes before anything is learnt."
    ),
    wrong='Dense(10, activation="softmax") with binary_crossentropy',
    right='loss="categorical_crossentropy"',
    find=_find,
)
