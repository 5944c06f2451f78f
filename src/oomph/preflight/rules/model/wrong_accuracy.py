"""A metric that does not fit the loss."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.model import Metric, Output
from oomph.preflight.facts.training import Training
from oomph.preflight.rule import MODEL, WARNING, Finding, Rule
from oomph.preflight.rules.losses import is_binary, is_categorical, is_sparse

_OF_PROBABILITIES = ("precision", "recall", "f1_score", "binary_accuracy", "false_positives", "true_positives")
_SOFT = ("sigmoid", "softmax")
_BY_NAME = ("accuracy", "acc")
"""Keras makes binary_accuracy of these for a binary loss, with a threshold of 0.5."""


def _find(training: Training) -> Iterator[Finding]:
    for output in training.model.outputs:
        for metric in output.metrics:
            if not metric.is_keras:
                continue
            why = _why(output, metric)
            if why:
                yield Finding(
                    f"{metric.name}: {why}", "Use the name: Keras then chooses what fits", 'metrics=["accuracy"]'
                )
            elif _ranks_logits(output, metric):
                yield Finding(
                    f"{metric.name} takes thresholds from 0 to 1, and the output {output.name} holds logits",
                    "Tell the metric, or give the model a sigmoid",
                    "keras.metrics.AUC(from_logits=True)",
                )
            elif _halves_logits(output, metric):
                yield Finding(
                    f"{metric.name} compares the output {output.name} with 0.5, but it holds logits, whose middle is 0",
                    "Move the threshold to 0",
                    "metrics=[keras.metrics.BinaryAccuracy(threshold=0.0)]",
                )


def _ranks_logits(output: Output, metric: Metric) -> bool:
    """Whether a curve over thresholds from 0 to 1 is made of logits."""
    loss = output.loss
    is_curve = metric.kind in ("auc", "precision_at_recall", "recall_at_precision", "sensitivity_at_specificity")
    is_logits = loss is not None and loss.from_logits and output.activation in ("linear", "")
    return is_curve and is_logits and not metric.settings.get("from_logits")


def _why(output: Output, metric: Metric) -> str:
    """Why the metric is of another kind than the loss; empty if it is not."""
    loss, kind = output.loss, metric.kind
    if kind == "accuracy" and metric.settings:
        return "keras.metrics.Accuracy counts outputs that equal the target exactly, which probabilities never do"
    if kind == "binary_accuracy" and (is_sparse(loss) or is_categorical(loss)):
        return f"binary_accuracy takes each unit by itself, and {loss.kind if loss else ''} is for exclusive classes"
    if kind in ("mean_io_u", "io_u") and metric.settings.get("sparse_y_pred", True) and output.activation in _SOFT:
        return "it takes numbers of classes, and probabilities are cut down to 0"
    if kind == "categorical_accuracy" and is_sparse(loss):
        return "categorical_accuracy takes one-hot targets, and the loss takes numbers of classes"
    if kind == "sparse_categorical_accuracy" and is_categorical(loss):
        return "sparse_categorical_accuracy takes numbers of classes, and the loss takes one-hot targets"
    return ""


def _halves_logits(output: Output, metric: Metric) -> bool:
    """Whether logits are compared with the middle of probabilities."""
    loss = output.loss
    if loss is None or not loss.from_logits or not is_binary(loss) or output.activation not in ("linear", ""):
        return False
    is_named = metric.kind in _BY_NAME and not metric.settings
    threshold = metric.settings.get("threshold", metric.settings.get("thresholds"))
    return is_named or (metric.kind in _OF_PROBABILITIES and threshold in (None, 0.5))


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
