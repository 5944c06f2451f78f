"""The compiled model as the rules see it: layers, outputs with their losses and metrics, and optimizer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Shape = tuple[int | None, ...]
"""Dimensions, batch first; None means any size."""


def in_words(shape: Shape | None) -> str:
    """Return a shape as Keras prints it, such as "(None, 28, 28)"."""
    return "an unknown shape" if shape is None else str(tuple(shape))


def agree(one: Shape, other: Shape) -> bool:
    """True if two shapes may be equal; None matches any size."""
    return len(one) == len(other) and all(a is None or b is None or a == b for a, b in zip(one, other, strict=True))


@dataclass(frozen=True)
class Weights:
    """Facts about one layer's weights, excluding nested layers."""

    trainable: int = 0
    """The number of trainable values."""
    frozen: int = 0
    not_finite: int = 0
    """The number of values that are NaN or infinite."""
    is_constant: bool = False
    """True if each kernel consists of a single repeated value; False without a kernel."""
    is_fresh: bool | None = None
    """True if the biases or normalisation statistics still have their initial values; None if the layer has neither."""


@dataclass(frozen=True)
class LayerFacts:
    """One layer, possibly in a nested model."""

    name: str
    kind: str
    """The class name: "Dense"."""
    is_keras: bool = True
    """True if the class belongs to Keras, so that `settings` have their documented meanings."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The plain values in its configuration: units, activation (by name), rate, input_dim, axis, ..."""
    input_shapes: tuple[Shape, ...] = ()
    output_shape: Shape | None = None
    compute_dtype: str = "float32"
    variable_dtype: str = "float32"
    trainable: bool = True
    weights: Weights = Weights()
    feeds: tuple[str, ...] = ()
    """The names of the layers that receive this layer's output; empty if unknown, as in a subclassed model."""
    untracked: tuple[str, ...] = ()
    """The attributes of a custom layer that contain trainable tf.Variables, which Keras 3 does not train."""
    frozen_random: str = ""
    """The expression in its `call` that draws Python random numbers only once per trace: "np.random.normal"."""
    loses_mask: bool = False
    """True if its input has a mask but its output does not."""
    is_on_path: bool = True
    """True if it belongs to the model's own graph or to a nested functional model, so that `feeds` is known."""

    def __getitem__(self, name: str) -> Any:
        """Return the layer setting with this name, or None."""
        return self.settings.get(name)


@dataclass(frozen=True)
class Loss:
    """The loss of one output."""

    kind: str
    """The Keras name in snake case, such as "sparse_categorical_crossentropy", or a custom class or function name."""
    is_keras: bool = True
    from_logits: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The loss's label_smoothing, ignore_class, axis, reduction, … if it has them."""
    weight: float = 1.0


_SPARSE, _CATEGORICAL, _BINARY = (
    "sparse_categorical_crossentropy", "categorical_crossentropy", "binary_crossentropy",
)  # fmt: skip
_FOCAL = {"categorical_focal_crossentropy": _CATEGORICAL, "binary_focal_crossentropy": _BINARY}
_REGRESSION = (
    "mean_squared_error", "mean_absolute_error", "mean_absolute_percentage_error", "mean_squared_logarithmic_error",
    "huber", "log_cosh",
)  # fmt: skip


def is_sparse(loss: Loss | None) -> bool:
    """True for a Keras loss that expects integer class labels as targets."""
    return loss is not None and loss.is_keras and loss.kind == _SPARSE


def is_categorical(loss: Loss | None) -> bool:
    """True for a Keras loss that expects one probability per class as targets."""
    return loss is not None and loss.is_keras and _FOCAL.get(loss.kind, loss.kind) == _CATEGORICAL


def is_binary(loss: Loss | None) -> bool:
    """True for a Keras loss that compares each unit with a target of 0 or 1."""
    return loss is not None and loss.is_keras and _FOCAL.get(loss.kind, loss.kind) == _BINARY


def is_crossentropy(loss: Loss | None) -> bool:
    """True for a Keras loss that treats the output as probabilities or as their logits."""
    return is_sparse(loss) or is_categorical(loss) or is_binary(loss)


def is_regression(loss: Loss | None) -> bool:
    """True for a Keras loss that compares the output with plain numbers."""
    return loss is not None and loss.is_keras and loss.kind in _REGRESSION


@dataclass(frozen=True)
class MetricFacts:
    """A metric of one output."""

    name: str
    """The metric's name in the logs: "accuracy"."""
    kind: str
    """The class or function name in snake case: "sparse_categorical_accuracy"."""
    is_keras: bool = True
    settings: Mapping[str, Any] = field(default_factory=dict)
    has_direction: bool = True
    """True if Keras knows whether higher is better, which it does not for custom metrics or a plain Mean."""


@dataclass(frozen=True)
class Output:
    """One output of the model."""

    name: str
    shape: Shape | None
    dtype: str = "float32"
    layer: LayerFacts | None = None
    """The layer that computes the output's values, skipping layers that only reshape; None if unknown."""
    activation: str = ""
    """The last activation: "softmax", "sigmoid", "linear", "relu", ...; empty if unknown."""
    loss: Loss | None = None
    metrics: tuple[MetricFacts, ...] = ()

    @property
    def units(self) -> int | None:
        """The size of the output's last dimension, or None if unknown."""
        return self.shape[-1] if self.shape is not None and len(self.shape) > 1 else None


@dataclass(frozen=True)
class Input:
    """One input of the model."""

    name: str
    shape: Shape
    dtype: str
    optional: bool = False


@dataclass(frozen=True)
class OptimizerFacts:
    """The optimizer, or the wrapped optimizer if there is a loss scaler."""

    kind: str
    """The class name: "Adam"."""
    learning_rate: float | None = None
    """The learning rate at the first step; None if unknown."""
    schedule: str = ""
    """The class name of the schedule; empty for a fixed learning rate."""
    rates: tuple[float, ...] = ()
    """The scheduled learning rates after 0, 25, 50, 75 and 100 % of the steps; empty if unknown."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The optimizer's momentum, beta_1, epsilon, clipnorm, weight_decay, ..."""
    scales_loss: bool = False


@dataclass(frozen=True)
class Model:
    """The compiled model."""

    kind: str
    """"Sequential", "Functional", or the name of a custom class."""
    layers: tuple[LayerFacts, ...]
    """The layers, in graph order if there is a graph."""
    outputs: tuple[Output, ...]
    inputs: tuple[Input, ...] = ()
    """The inputs; empty if unknown, as in a subclassed model."""
    input_keys: tuple[str, ...] = ()
    """The keys of the input dictionary that the model was built with; empty for other structures."""
    optimizer: OptimizerFacts = OptimizerFacts("SGD")
    own_train_step: bool = False
    own_call: bool = False
    """True if `call` is custom, so layers are not necessarily applied in the order listed."""
    swapped_loss: str = ""
    """The loss that a custom loop calls with targets and predictions swapped; empty if there is none."""
    run_eagerly: bool = False
    pretrained: str = ""
    """The keras.applications model that this model contains: "efficientnetb0"."""
    has_added_losses: bool = False
    """True if layers or the model itself add losses through regularisers, `add_loss` or `compute_loss`."""
    operations: tuple[str, ...] = ()
    """The kinds of non-layer operations that inputs pass through before reaching any weights: "TrueDivide"."""
    logged: tuple[str, ...] = ()
    """The names of metrics that belong to layers or to the model itself, in addition to those passed to `compile`."""

    def layer(self, name: str) -> LayerFacts | None:
        """Return the layer with the given name, or None."""
        return next((layer for layer in self.layers if layer.name == name), None)
