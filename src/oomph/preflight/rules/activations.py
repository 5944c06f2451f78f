"""Rules that compare the last activation of each output with its loss, and examine activations within the model."""

from __future__ import annotations

import math
from collections.abc import Iterator

from oomph.preflight.facts.model import (
    LayerFacts,
    Loss,
    Model,
    is_binary,
    is_categorical,
    is_crossentropy,
    is_regression,
    is_sparse,
)
from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, WARNING, CheckFinding, rule


@rule(
    "CHK201",
    ERROR,
    why=(
        "Softmax divides by the sum over the units. With one unit the result is 1 whatever the weights are, and no "
        "gradient reaches them."
    ),
    wrong='Dense(1, activation="softmax")',
    right='Dense(1, activation="sigmoid")',
    hides=("zero-gradients", "same-answer-for-all"),
)
def softmax_of_one_unit(training: Training) -> Iterator[CheckFinding]:
    """A softmax over a single unit, which is always 1."""
    for output in training.model.outputs:
        if output.activation == "softmax" and output.units == 1:
            yield CheckFinding(
                f"the output {output.name} is a softmax over one unit: it is 1 for every sample",
                "Use a sigmoid for two classes, or one unit per class",
                'Dense(1, activation="sigmoid") with loss="binary_crossentropy"',
            )


@rule(
    "CHK202",
    WARNING,
    why=(
        "The cross-entropy treats the outputs as one distribution. Sigmoids are not one, so classes do not compete as "
        "they should."
    ),
    wrong='Dense(10, activation="sigmoid") with sparse_categorical_crossentropy',
    right='Dense(10, activation="softmax")',
)
def sigmoid_for_exclusive_classes(training: Training) -> Iterator[CheckFinding]:
    """Sigmoids for mutually exclusive classes."""
    for output in training.model.outputs:
        if output.activation in ("sigmoid", "tanh") and (output.units or 0) > 1 and _is_exclusive(output.loss):
            yield CheckFinding(
                f"the output {output.name} is a {output.activation} of {output.units} units, but its loss "
                f"{output.loss.kind if output.loss else ''} is for mutually exclusive classes",
                "Use a softmax, or binary_crossentropy for labels that can occur together",
                f'Dense({output.units}, activation="softmax")',
            )


def _is_exclusive(loss: Loss | None) -> bool:
    return (is_sparse(loss) or is_categorical(loss)) and not (loss is not None and loss.from_logits)


_NOT_PROBABILITIES = (
    "linear", "relu", "relu6", "leaky_relu", "elu", "selu", "gelu", "silu", "swish", "mish", "prelu", "softplus",
    "softsign", "tanh",
)  # fmt: skip
_ROUNDING = 1e-3


@rule(
    "CHK203",
    ERROR,
    why="Keras clips the values to 0..1: most of them get no gradient, and the loss barely moves.",
    wrong='Dense(10) with loss="sparse_categorical_crossentropy"',
    right="loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True)",
    hides=("negative-loss", "zero-gradients"),
)
def logits_as_probabilities(training: Training) -> Iterator[CheckFinding]:
    """A loss for probabilities on an output of arbitrary numbers."""
    for output in training.model.outputs:
        loss = output.loss
        is_distance = loss is not None and loss.is_keras and loss.kind == "kl_divergence"
        if loss is None or not (is_crossentropy(loss) or is_distance) or loss.from_logits:
            continue
        found = training.prediction(output)
        seen = ""
        if found is not None and found.minimum is not None and found.maximum is not None:
            seen = f": its values range from {found.minimum:.3g} to {found.maximum:.3g}"
            outside = found.minimum < -_ROUNDING or found.maximum > 1 + _ROUNDING
        else:
            outside = False
        if output.activation in _NOT_PROBABILITIES or (not output.activation and outside):
            yield CheckFinding(
                f"the loss {loss.kind} expects probabilities, but the output {output.name} does not produce them{seen}",
                "Give the output a softmax"
                if is_distance
                else "Declare the output as logits, or give it a softmax or sigmoid",
                'activation="softmax"'
                if is_distance
                else f"loss=keras.losses.{_loss_class(loss.kind)}(from_logits=True)",
            )


def _loss_class(kind: str) -> str:
    return "".join(word.capitalize() for word in kind.split("_"))


_FAR_LESS, _NOT_TINY = 0.2, 0.02


@rule(
    "CHK204",
    WARNING,
    why=(
        "Softmax is applied twice: differences between classes shrink, and training is slow. Keras undoes this, with a "
        "warning, only if it sees the activation directly before the loss."
    ),
    wrong='Dense(10, activation="softmax") with from_logits=True',
    right="Dense(10) with from_logits=True",
)
def probabilities_as_logits(training: Training) -> Iterator[CheckFinding]:
    """Probabilities that the loss treats as logits."""
    yield from _of_own_losses(training)
    for output in training.model.outputs:
        loss = output.loss
        if loss is None or not is_crossentropy(loss) or not loss.from_logits:
            continue
        found = training.prediction(output)
        is_distribution = found is not None and found.sums_to_one and output.activation == ""
        if output.activation in ("softmax", "sigmoid") or is_distribution:
            yield CheckFinding(
                f"the output {output.name} already produces probabilities "
                f"({output.activation or 'its rows sum to 1'}), but {loss.kind} is set to expect logits",
                "Remove the last activation, or from_logits=True",
                severity=ERROR if is_distribution else WARNING,
            )


def _of_own_losses(training: Training) -> Iterator[CheckFinding]:
    """Find custom losses that are large for the right probabilities, and nearly 0 only for large logits."""
    for order in () if training.trial is None else training.trial.orders:
        far = order.as_logits
        if far is not None and 0 <= far < _FAR_LESS * order.right and order.right > _NOT_TINY * order.wrong > 0:
            yield CheckFinding(
                f"the output {order.output} already produces probabilities, but {order.loss} treats them as logits: it "
                f"is {order.right:.3g} for the right answer, and falls to {far:.2g} only for values that no "
                "probability can have",
                "Remove the last activation, or the one in the loss",
            )


@rule(
    "CHK205",
    WARNING,
    why=(
        "The loss treats each class as an independent yes/no label, and accuracy counts every correct zero: for ten "
        "classes it is 0.9 before the model has learnt anything."
    ),
    wrong='Dense(10, activation="softmax") with binary_crossentropy',
    right='loss="categorical_crossentropy"',
)
def binary_loss_on_softmax(training: Training) -> Iterator[CheckFinding]:
    """A binary loss on a softmax."""
    for output in training.model.outputs:
        if output.activation == "softmax" and (output.units or 0) > 1 and is_binary(output.loss):
            yield CheckFinding(
                f"the output {output.name} is a softmax over {output.units} classes, but binary_crossentropy treats "
                "each unit as an independent yes/no label",
                "Use categorical_crossentropy, or sparse_categorical_crossentropy for integer class labels",
                'loss="categorical_crossentropy"',
            )


@rule(
    "CHK206",
    ERROR,
    why="With one class there is nothing to choose: the loss is 0 or constant, and no gradient is left.",
    wrong='Dense(1, activation="sigmoid") with categorical_crossentropy',
    right='loss="binary_crossentropy"',
    hides=(
        "label-out-of-range",
        "step-fails",
        "zero-gradients",
        "logits-as-probabilities",
        "target-shape",
        "not-one-hot",
    ),
)
def categorical_loss_of_one_unit(training: Training) -> Iterator[CheckFinding]:
    """A categorical loss on a single unit."""
    for output in training.model.outputs:
        if (
            output.units == 1
            and output.activation != "softmax"
            and (is_categorical(output.loss) or is_sparse(output.loss))
        ):
            yield CheckFinding(
                f"the output {output.name} has one unit, but {output.loss.kind if output.loss else ''} needs one per "
                "class",
                "For two classes, use binary_crossentropy and a sigmoid; otherwise give the output one unit per class",
                'loss="binary_crossentropy"',
            )


_ACTIVATION_RANGES = {
    "sigmoid": (0.0, 1.0), "hard_sigmoid": (0.0, 1.0), "tanh": (-1.0, 1.0), "softmax": (0.0, 1.0),
    "relu": (0.0, math.inf), "softplus": (0.0, math.inf), "relu6": (0.0, 6.0), "softsign": (-1.0, 1.0),
}  # fmt: skip
_SLACK = 0.02
"""The share of the targets' range by which rounding and augmentation may exceed it."""


@rule(
    "CHK207",
    ERROR,
    why="For these samples, the output stays at the limit of its range, where the gradient is 0.",
    wrong='Dense(1, activation="sigmoid") for prices',
    right="Dense(1)",
)
def bounded_output(training: Training) -> Iterator[CheckFinding]:
    """Targets that the last activation cannot reach."""
    if training.masks_samples:
        return
    for output, target in training.pairs():
        sample, limits = target.sample, _ACTIVATION_RANGES.get(output.activation)
        is_compared = output.loss is not None and is_regression(output.loss)
        if not is_compared or limits is None or sample is None or sample.minimum is None or sample.maximum is None:
            continue
        slack = _SLACK * max(sample.maximum - sample.minimum, 1e-6)
        if sample.minimum < limits[0] - slack or sample.maximum > limits[1] + slack:
            high = "infinity" if limits[1] == math.inf else f"{limits[1]:g}"
            yield CheckFinding(
                f"targets in {target.name} range from {sample.minimum:.4g} to {sample.maximum:.4g}, but the output "
                f"{output.name} ({output.activation}) covers {limits[0]:g} to {high}",
                "Remove the last activation, or scale the targets into its range",
                f"Dense({output.units or 1})",
            )


@rule(
    "CHK225",
    ERROR,
    why="Values add up to 1 over time or space instead of over the classes: the loss compares the wrong things.",
    wrong="Softmax(axis=1) on (None, 50, 10)",
    right="Softmax()",
)
def softmax_over_wrong_axis(training: Training) -> Iterator[CheckFinding]:
    """A softmax over an axis that is not the class axis."""
    for output in training.model.outputs:
        layer = output.layer
        if layer is None or layer.kind != "Softmax" or not layer.is_keras or output.shape is None:
            continue
        axis, rank = layer["axis"], len(output.shape)
        last = output.loss is None or output.loss.settings.get("axis", -1) in (-1, rank - 1)
        if isinstance(axis, int) and axis % rank != rank - 1 and last and is_crossentropy(output.loss):
            yield CheckFinding(
                f"{layer.name} adds up to 1 over axis {axis} of {output.shape}, but the classes are along the last "
                "axis",
                "Remove axis",
                "Softmax()",
            )


@rule(
    "CHK219",
    WARNING,
    why="float16 ranges from 6e-8 to 65,504: logarithms and sums of the loss overflow or vanish.",
    wrong='Dense(10, activation="softmax") under mixed_float16',
    right='Dense(10, activation="softmax", dtype="float32")',
)
def half_precision_output(training: Training) -> Iterator[CheckFinding]:
    """A loss computed in float16."""
    for output in training.model.outputs:
        layer = output.layer
        if (
            output.loss is not None
            and layer is not None
            and layer.compute_dtype == "float16"
            and output.dtype == "float16"
        ):
            yield CheckFinding(
                f"the output {output.name} is float16, and so is its loss",
                "Make the last layer compute in float32",
                f'{layer.kind}(..., dtype="float32")',
            )


_BETWEEN = ("Dropout", "BatchNormalization", "Flatten")
_WITH_KERNEL = ("Dense",)


@rule(
    "CHK239",
    WARNING,
    why=(
        "A unit can only grow if others shrink, and with many units each value is near 0, as are the gradients: the "
        "network learns slowly, or not at all."
    ),
    wrong='Dense(64, activation="softmax"), Dense(1, activation="sigmoid")',
    right='Dense(64, activation="relu"), Dense(1, activation="sigmoid")',
    after="CHK219",
)
def hidden_softmax(training: Training) -> Iterator[CheckFinding]:
    """A softmax between two layers."""
    model = training.model
    made_by = {output.layer.name for output in model.outputs if output.layer is not None}
    for layer in model.layers:
        is_hidden = layer.kind == "Dense" and layer.is_keras and layer["activation"] == "softmax"
        if is_hidden and layer.name not in made_by and layer.weights.trainable and _feeds_dense(model, layer):
            yield CheckFinding(
                f"the hidden layer {layer.name} ends with a softmax: its {layer['units']} values add up to 1",
                "Use a ReLU between layers; a softmax belongs in the output layer",
                f'Dense({layer["units"]}, activation="relu")',
            )
            return


def _feeds_dense(model: Model, layer: LayerFacts) -> bool:
    """True if a layer's outputs feed only layers with a kernel."""
    for _ in model.layers:
        if len(layer.feeds) != 1:
            return False
        follower = model.layer(layer.feeds[0])
        if follower is None or not follower.is_keras:
            return False
        if follower.kind not in _BETWEEN:
            return follower.kind in _WITH_KERNEL
        layer = follower
    return False
