"""Sigmoids for classes that exclude one another."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.model import Loss
from oomph.preflight.facts.training import Training
from oomph.preflight.rule import MODEL, WARNING, Finding, Rule
from oomph.preflight.rules.losses import is_categorical, is_sparse


def _find(training: Training) -> Iterator[Finding]:
    for output in training.model.outputs:
        if output.activation in ("sigmoid", "tanh") and (output.units or 0) > 1 and _is_exclusive(output.loss):
            yield Finding(
                f"the output {output.name} is a {output.activation} of {output.units} units, and its loss "
                f"{output.loss.kind if output.loss else ''} is for classes that exclude one another",
                "Use a softmax; for labels that may hold together, binary_crossentropy",
                f'Dense({output.units}, activation="softmax")',
            )


def _is_exclusive(loss: Loss | None) -> bool:
    return (is_sparse(loss) or is_categorical(loss)) and not (loss is not None and loss.from_logits)


RULE = Rule(
    code="CHK202",
    name="sigmoid-for-exclusive-classes",
    severity=WARNING,
    depth=MODEL,
    why=(
        "The cross-entropy takes the outputs for one distribution. Sigmoids are not one, so classes do "
        "not compete as they should."
    ),
    wrong='Dense(10, activation="sigmoid") with sparse_categorical_crossentropy',
    right='Dense(10, activation="softmax")',
    find=_find,
)
