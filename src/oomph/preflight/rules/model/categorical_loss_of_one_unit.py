"""A categorical loss on a single unit."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, MODEL, Finding, Rule
from oomph.preflight.rules.losses import is_categorical, is_sparse


def _find(training: Training) -> Iterator[Finding]:
    for output in training.model.outputs:
        if (
            output.units == 1
            and output.activation != "softmax"
            and (is_categorical(output.loss) or is_sparse(output.loss))
        ):
            yield Finding(
                f"the output {output.name} has one unit, and {output.loss.kind if output.loss else ''} needs one "
                "for each "
                "class",
                "For two classes use binary_crossentropy and a sigmoid; else give the output a unit for each class",
                'loss="binary_crossentropy"',
            )


RULE = Rule(
    code="CHK206",
    name="categorical-loss-of-one-unit",
    severity=ERROR,
    depth=MODEL,
    why=("With one class there is nothing to choose: the loss is 0 or constant, and no gradient is left."),
    wrong='Dense(1, activation="sigmoid") with categorical_crossentropy',
    right='loss="binary_crossentropy"',
    find=_find,
    hides=(
        "label-out-of-range",
        "step-fails",
        "zero-gradients",
        "logits-as-probabilities",
        "target-shape",
        "not-one-hot",
    ),
)
