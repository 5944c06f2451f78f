"""A loss for numbers, for classes."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import MODEL, WARNING, Finding, Rule
from oomph.preflight.rules.losses import is_regression


def _find(training: Training) -> Iterator[Finding]:
    for output, target in training.pairs():
        sample = target.sample
        if sample is None or output.loss is None or not is_regression(output.loss):
            continue
        is_exclusive = sample.zero_one and sample.row_sums == (1.0, 1.0)
        is_copied = any(part.equals_target for part in training.data.of("x"))
        one_hot = is_exclusive and output.activation in ("softmax", "sigmoid") and not is_copied
        binary = sample.zero_one and output.units == 1 and output.activation == "sigmoid" and len(sample.counts) == 2
        numbered = output.activation == "softmax" and sample.is_integral and (output.units or 0) > 1 and not one_hot
        if one_hot or binary or numbered:
            better = "binary_crossentropy" if binary else "categorical_crossentropy"
            better = "sparse_categorical_crossentropy" if numbered and not sample.zero_one else better
            yield Finding(
                f"{target.name} holds classes and {output.name} is a {output.activation}, but the loss is "
                f"{output.loss.kind}",
                f"Use a softmax and {better}" if one_hot and output.activation == "sigmoid" else f"Use {better}",
                f'loss="{better}"',
            )


RULE = Rule(
    code="CHK208",
    name="regression-loss-for-classes",
    severity=WARNING,
    depth=MODEL,
    why=(
        "The squared error of a probability has next to no gradient where the answer is badly wrong: "
        "learning is slow or stops early."
    ),
    wrong='Dense(10, activation="softmax") with loss="mse"',
    right='loss="categorical_crossentropy"',
    find=_find,
)
