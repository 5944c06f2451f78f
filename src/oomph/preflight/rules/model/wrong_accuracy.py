"""A metric that does not fit the loss."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.model import Metric, Output
from oomph.preflight.facts.training import Training
from oomph.preflight.rule import MODEL, WARNING, Finding, Rule
from oomph.preflight.rules.losses import is_binary, is_categorical, is_sparse

_OF_PROBABILITIES = ("precision", "recall", "auc", "f1_score", "binary_accuracy", "false_positives", "true_positives")


def _find(training: Training) -> Iterator[Finding]:
    for output in training.model.outputs:
        for metric in output.metrics:
            why = _why(output, metric) if metric.is_keras else ""
            if why:
                yield Finding(
                    f"{metric.name}: {why}", "Use the name: Keras then chooses what fits", 'metrics=["accuracy"]'
                )


def _why(output: Output, metric: Metric) -> str:
    loss, kind = output.loss, metric.kind
    if kind == "accuracy" and metric.settings:
        return "keras.metrics.Accuracy counts outputs that equal the target exactly, which probabilities never do"
    if kind == "binary_accuracy" and (is_sparse(loss) or is_categorical(loss)):
        return f"binary_accuracy takes each unit by itself, and {loss.kind if loss else ''} is for exclusive classes"
    if kind == "categorical_accuracy" and is_sparse(loss):
        return "categorical_accuracy takes one-hot targets, and the loss takes numbers of classes"
    if kind == "sparse_categorical_accuracy" and is_categorical(loss):
        return "sparse_categorical_accuracy takes numbers of classes, and the loss takes one-hot targets"
    is_of_logits = loss is not None and loss.from_logits and is_binary(loss) and output.activation in ("linear", "")
    threshold = metric.settings.get("threshold", metric.settings.get("thresholds"))
    if (
        is_of_logits
        and kind in _OF_PROBABILITIES
        and threshold in (None, 0.5)
        and not metric.settings.get("from_logits")
    ):
        return "it compares with 0.5, and the output holds logits, for which the middle is 0"
    return ""


RULE = Rule(
    code="CHK210",
    name="wrong-accuracy",
    severity=WARNING,
    depth=MODEL,
    why="The figure is wrong while the training is right: people stop or change what works.",
    wrong="metrics=[keras.metrics.Accuracy()]",
    right='metrics=["accuracy"]',
    find=_find,
)
