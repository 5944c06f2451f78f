"""Accuracy for targets that are numbers."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import MODEL, WARNING, Finding, Rule
from oomph.preflight.rules.losses import is_regression

_FEW = 20
"""Fewer distinct values may be classes or ratings."""


def _find(training: Training) -> Iterator[Finding]:
    for output, target in training.pairs():
        sample = target.sample
        if output.loss is None or not is_regression(output.loss) or sample is None or sample.minimum is None:
            continue
        is_number = not sample.is_integral or not sample.counts or len(sample.counts) > _FEW
        names = [metric.name for metric in output.metrics if metric.kind in ("accuracy", "acc", *_KINDS)]
        if is_number and names:
            yield Finding(
                f"{names[0]} counts predictions that are right, and {target.name} holds numbers "
                f"({sample.minimum:.4g} to {sample.maximum:.4g})",
                "Use the mean absolute error, or R2Score",
                'metrics=["mae"]',
            )


_KINDS = ("binary_accuracy", "categorical_accuracy", "sparse_categorical_accuracy")


RULE = Rule(
    code="CHK209",
    name="accuracy-of-regression",
    severity=WARNING,
    depth=MODEL,
    why=("It counts how often a prediction equals its target: about never. It stays near 0 however good the model is."),
    wrong='metrics=["accuracy"] with loss="mse"',
    right='metrics=["mae"]',
    find=_find,
)
