"""Rules for losses and metrics that do not measure the goal of training."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.model import (
    MetricFacts,
    Output,
    is_binary,
    is_categorical,
    is_crossentropy,
    is_regression,
    is_sparse,
)
from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, WARNING, CheckFinding, rule


@rule(
    "CHK208",
    WARNING,
    why=(
        "The squared error of a probability has almost no gradient where the answer is badly wrong: learning is slow "
        "or stops early."
    ),
    wrong='Dense(10, activation="softmax") with loss="mse"',
    right='loss="categorical_crossentropy"',
)
def regression_loss_for_classes(training: Training) -> Iterator[CheckFinding]:
    """A regression loss for a classification task."""
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
            yield CheckFinding(
                f"{target.name} contains classes and {output.name} is a {output.activation}, but the loss is "
                f"{output.loss.kind}",
                f"Use a softmax and {better}" if one_hot and output.activation == "sigmoid" else f"Use {better}",
                f'loss="{better}"',
            )


_MUCH_SMOOTHING = 0.5


@rule(
    "CHK224",
    WARNING,
    why="At 0.5 in a binary loss, the two classes get targets of 0.25 and 0.75; at 1 or more, nothing of the label "
    "remains.",
    wrong="BinaryCrossentropy(label_smoothing=0.9)",
    right="BinaryCrossentropy(label_smoothing=0.1)",
)
def label_smoothing_too_high(training: Training) -> Iterator[CheckFinding]:
    """Label smoothing that removes most of the label."""
    for output in training.model.outputs:
        value = output.loss.settings.get("label_smoothing") if output.loss is not None else None
        if isinstance(value, (int, float)) and value >= _MUCH_SMOOTHING:
            yield CheckFinding(
                f"label_smoothing of {output.name} is {value:g}",
                "Use 0.05 to 0.2",
                "label_smoothing=0.1",
                severity=ERROR if value >= 1 else WARNING,
            )


@rule(
    "CHK235",
    ERROR,
    why="The loss takes the logarithm of the labels, so both the loss and its gradient are wrong.",
    wrong="loss = loss_fn(predictions, labels)",
    right="loss = loss_fn(labels, predictions)",
    after="CHK226",
)
def swapped_loss(training: Training) -> Iterator[CheckFinding]:
    """A loss that is passed the prediction first."""
    kind = training.model.swapped_loss
    if "crossentropy" in kind or "divergence" in kind:
        yield CheckFinding(
            f"{kind} is called with the model's output first, but Keras losses expect the target first",
            "Swap the arguments",
            "loss = loss_fn(labels, predictions)",
        )


@rule(
    "CHK221",
    WARNING,
    why="The layers of that output are not trained, but still cost time.",
    wrong='loss_weights={"age": 1.0, "kind": 0.0}',
    right='loss_weights={"age": 1.0, "kind": 0.5}',
)
def zero_loss_weight(training: Training) -> Iterator[CheckFinding]:
    """An output whose loss has a weight of 0."""
    for output in training.model.outputs:
        if output.loss is not None and output.loss.weight == 0:
            yield CheckFinding(
                f"the loss of the output {output.name} does not count: its loss weight is 0",
                "Give it a weight above 0, or remove the output",
            )


_NOT_NEGATIVE = ("poisson", "kl_divergence", "mean_squared_logarithmic_error")


@rule(
    "CHK419",
    ERROR,
    why="Logarithms of negative numbers are NaN or clipped; a percentage of 0 is infinite.",
    wrong='loss="poisson" with negative targets',
    right='loss="mse"',
)
def loss_needs_range(training: Training) -> Iterator[CheckFinding]:
    """Targets outside the range that the loss is designed for."""
    for output, target in training.pairs():
        sample, loss = target.sample, output.loss
        if sample is None or loss is None or sample.minimum is None or not loss.is_keras:
            continue
        if loss.kind in _NOT_NEGATIVE and sample.minimum < 0:
            yield CheckFinding(
                f"{loss.kind} expects targets of 0 or more, but {target.name} goes down to {sample.minimum:.4g}",
                "Use mse or mae",
                'loss="mse"',
            )
        elif loss.kind == "mean_absolute_percentage_error" and sample.zero_share > 0:
            yield CheckFinding(
                f"{sample.zero_share:.1%} of the targets in {target.name} are 0, and the loss divides by them",
                "Use mae, or remove the zeros",
                'loss="mae"',
            )


_CLEARLY_MORE = 1e-3


@rule(
    "CHK514",
    ERROR,
    why="Training minimises the loss, which makes this model worse with every step.",
    wrong="def dice_loss(y, p): return dice(y, p)",
    right="def dice_loss(y, p): return 1 - dice(y, p)",
    hides=("negative-loss",),
    after="CHK506",
)
def loss_prefers_wrong(training: Training) -> Iterator[CheckFinding]:
    """A custom loss that is lower for wrong answers."""
    trial = training.trial
    for order in () if trial is None else trial.orders:
        output = next((each for each in training.model.outputs if each.name == order.output), None)
        if output is not None and order.right > order.wrong + _CLEARLY_MORE * max(1.0, abs(order.wrong)):
            yield CheckFinding(
                f"{order.loss} is {order.right:.3g} for right answers and {order.wrong:.3g} for wrong ones",
                "Reverse it: training minimises the loss",
                f"return 1.0 - {order.loss}" if 0 <= order.wrong < order.right <= 1 else f"return -{order.loss}",
                severity=ERROR if output.activation in ("sigmoid", "softmax") else WARNING,
            )


_CLEARLY_NEGATIVE = -1e-3
"""A loss below this value is negative by more than a rounding error."""


@rule(
    "CHK509",
    ERROR,
    why=(
        "A cross-entropy of probabilities cannot be negative. This one falls without bound, and the model learns "
        "nothing."
    ),
    wrong="binary_crossentropy for targets 0..3",
    right="targets of 0 and 1",
)
def negative_loss(training: Training) -> Iterator[CheckFinding]:
    """A cross-entropy below 0."""
    trial, model = training.trial, training.model
    outputs = [output for output in model.outputs if output.loss is not None]
    is_plain = bool(outputs) and all(is_crossentropy(output.loss) for output in outputs) and not model.has_added_losses
    weights = [part.sample.minimum for part in training.data.of("sample_weight") if part.sample is not None]
    if any(least is not None and least < 0 for least in weights):
        return  # as with advantages in reinforcement learning
    if trial is None or not is_plain or any(output.loss.weight < 0 for output in outputs if output.loss is not None):
        return
    low = min((loss for loss in trial.losses if loss == loss), default=0.0)
    if low < _CLEARLY_NEGATIVE:
        yield CheckFinding(
            f"the cross-entropy is {low:.3g}, below 0: targets are outside 0..1",
            "Scale the targets to 0..1, or use a loss that fits their range",
        )


@rule(
    "CHK518",
    ERROR,
    why="The mean over all pairs is smallest if every prediction is the mean target, so that is what the model learns.",
    wrong="tf.square(targets - predictions)  # (32,) and (32, 1)",
    right="tf.square(targets[:, None] - predictions)",
    after="CHK508",
)
def difference_broadcasts(training: Training) -> Iterator[CheckFinding]:
    """A difference between a vector and a column."""
    if training.trial is not None and training.trial.broadcasts:
        yield CheckFinding(
            f"the step computes {training.trial.broadcasts}, which compares every target with every prediction",
            "Give both the same shape",
            "targets = tf.expand_dims(targets, -1)",
        )


_DOMINATES = 10.0


@rule(
    "CHK511",
    WARNING,
    why="The weights shrink towards 0 before the model learns anything from the data.",
    wrong="Dense(64, kernel_regularizer=keras.regularizers.L2(1.0))",
    right="Dense(64, kernel_regularizer=keras.regularizers.L2(1e-4))",
)
def regulariser_dominates(training: Training) -> Iterator[CheckFinding]:
    """Added losses that are far larger than the loss on the data."""
    trial = training.trial
    if trial is None or not trial.losses or training.model.own_train_step:
        return
    if all(output.loss is None for output in training.model.outputs):
        return  # the entire loss is added, as in a variational autoencoder
    of_data = trial.losses[0] - trial.added_loss
    if of_data > 0 and trial.added_loss > _DOMINATES * of_data:
        yield CheckFinding(
            f"regularisation adds {trial.added_loss:.3g} to a loss of {of_data:.3g}",
            "Reduce the regularisation factors",
            "keras.regularizers.L2(1e-4)",
        )


_FEW_VALUES = 20
"""Targets with fewer distinct values may be classes or ratings."""
_ACCURACIES = ("binary_accuracy", "categorical_accuracy", "sparse_categorical_accuracy")


@rule(
    "CHK209",
    WARNING,
    why="It counts how often a prediction equals its target: almost never. It stays near 0 however good the model is.",
    wrong='metrics=["accuracy"] with loss="mse"',
    right='metrics=["mae"]',
)
def accuracy_of_regression(training: Training) -> Iterator[CheckFinding]:
    """Accuracy as a metric for regression targets."""
    for output, target in training.pairs():
        sample = target.sample
        if output.loss is None or not is_regression(output.loss) or sample is None or sample.minimum is None:
            continue
        is_number = not sample.is_integral or not sample.counts or len(sample.counts) > _FEW_VALUES
        names = [metric.name for metric in output.metrics if metric.kind in ("accuracy", "acc", *_ACCURACIES)]
        if is_number and names:
            yield CheckFinding(
                f"{names[0]} counts exact matches, but {target.name} contains numbers, not classes "
                f"({sample.minimum:.4g} to {sample.maximum:.4g})",
                "Use the mean absolute error, or R2Score",
                'metrics=["mae"]',
            )


_OF_PROBABILITIES = ("precision", "recall", "f1_score", "binary_accuracy", "false_positives", "true_positives")
_GIVES_PROBABILITIES = ("sigmoid", "softmax")
_BY_NAME = ("accuracy", "acc")
"""The names that Keras treats as binary_accuracy with a threshold of 0.5 if the loss is binary."""


@rule(
    "CHK210",
    WARNING,
    why="The metric is wrong although training works, so people stop it or change things that work.",
    wrong="metrics=[keras.metrics.Accuracy()]",
    right='metrics=["accuracy"]',
)
def wrong_accuracy(training: Training) -> Iterator[CheckFinding]:
    """A metric that does not match the loss."""
    for output in training.model.outputs:
        for metric in output.metrics:
            if not metric.is_keras:
                continue
            why = _other_kind(output, metric)
            if why:
                yield CheckFinding(
                    f"{metric.name}: {why}", "Use the name: Keras then chooses the right one", 'metrics=["accuracy"]'
                )
            elif _ranks_logits(output, metric):
                yield CheckFinding(
                    f"{metric.name} expects thresholds from 0 to 1, but the output {output.name} produces logits",
                    "Set from_logits=True on the metric, or end the model with a sigmoid",
                    "keras.metrics.AUC(from_logits=True)",
                )
            elif _halves_logits(output, metric):
                yield CheckFinding(
                    f"{metric.name} compares the output {output.name} with 0.5, but that output produces logits, whose "
                    "midpoint is 0",
                    "Move the threshold to 0",
                    "metrics=[keras.metrics.BinaryAccuracy(threshold=0.0)]",
                )


def _ranks_logits(output: Output, metric: MetricFacts) -> bool:
    """True if the metric applies thresholds from 0 to 1 to logits."""
    loss = output.loss
    is_curve = metric.kind in ("auc", "precision_at_recall", "recall_at_precision", "sensitivity_at_specificity")
    is_logits = loss is not None and loss.from_logits and output.activation in ("linear", "")
    return is_curve and is_logits and not metric.settings.get("from_logits")


def _other_kind(output: Output, metric: MetricFacts) -> str:
    """Return why the metric does not match the loss; empty if it does."""
    loss, kind = output.loss, metric.kind
    if kind == "accuracy" and metric.settings:
        return "keras.metrics.Accuracy counts outputs that equal the target exactly, which probabilities never do"
    if kind == "binary_accuracy" and (is_sparse(loss) or is_categorical(loss)):
        return f"binary_accuracy judges each unit on its own, but {loss.kind if loss else ''} is for exclusive classes"
    if (
        kind in ("mean_io_u", "io_u")
        and metric.settings.get("sparse_y_pred", True)
        and output.activation in _GIVES_PROBABILITIES
    ):
        return "it expects integer class labels, but probabilities are truncated to 0"
    if kind == "categorical_accuracy" and is_sparse(loss):
        return "categorical_accuracy expects one-hot targets, but the loss expects integer class labels"
    if kind == "sparse_categorical_accuracy" and is_categorical(loss):
        return "sparse_categorical_accuracy expects integer class labels, but the loss expects one-hot targets"
    return ""


def _halves_logits(output: Output, metric: MetricFacts) -> bool:
    """True if the metric compares logits with 0.5, the midpoint of probabilities."""
    loss = output.loss
    if loss is None or not loss.from_logits or not is_binary(loss) or output.activation not in ("linear", ""):
        return False
    is_named = metric.kind in _BY_NAME and not metric.settings
    threshold = metric.settings.get("threshold", metric.settings.get("thresholds"))
    return is_named or (metric.kind in _OF_PROBABILITIES and threshold in (None, 0.5))


@rule(
    "CHK516",
    WARNING,
    why="The value mixes all epochs, and training with validation, so it hides how good the model is now.",
    wrong="def reset_state(self): pass",
    right="(no reset_state)",
    after="CHK509",
)
def metric_not_reset(training: Training) -> Iterator[CheckFinding]:
    """A custom metric that is never reset."""
    for name in () if training.trial is None else training.trial.not_reset:
        yield CheckFinding(
            f"reset_state of the metric {name} does not reset anything",
            "Reset every variable, or remove reset_state: Keras then sets them to 0",
            "for variable in self.variables: variable.assign(0)",
        )
