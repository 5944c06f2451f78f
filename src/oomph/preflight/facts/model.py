"""The compiled model as the rules see it: layers, outputs with their losses and metrics, optimizer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Shape = tuple[int | None, ...]
"""Dimensions, batch first; None means any size."""


def in_words(shape: Shape | None) -> str:
    """Return a shape as Keras prints it: "(None, 28, 28)"."""
    return "an unknown shape" if shape is None else str(tuple(shape))


def agree(one: Shape, other: Shape) -> bool:
    """True if two shapes may be the same; None agrees with any size."""
    return len(one) == len(other) and all(a is None or b is None or a == b for a, b in zip(one, other, strict=True))


@dataclass(frozen=True)
class Weights:
    """The weights of one layer, excluding nested layers."""

    trainable: int = 0
    """The number of trained values."""
    frozen: int = 0
    not_finite: int = 0
    """The number of values that are NaN or infinite."""
    is_constant: bool = False
    """True if each kernel contains a single value; False without a kernel."""
    is_fresh: bool | None = None
    """True if its biases or normalisation statistics have their initial values; None if it has neither."""


@dataclass(frozen=True)
class LayerFacts:
    """One layer, possibly in a nested model."""

    name: str
    kind: str
    """The name of its class: "Dense"."""
    is_keras: bool = True
    """True if the class belongs to Keras, so that `settings` have their documented meaning."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The plain values of its configuration: units, activation (by its name), rate, input_dim, axis, ..."""
    input_shapes: tuple[Shape, ...] = ()
    output_shape: Shape | None = None
    compute_dtype: str = "float32"
    variable_dtype: str = "float32"
    trainable: bool = True
    weights: Weights = Weights()
    feeds: tuple[str, ...] = ()
    """The names of the layers that receive its output; empty if unknown, as in a subclassed model."""
    untracked: tuple[str, ...] = ()
    """The attributes of a custom layer that contain trainable tf.Variables, which Keras 3 does not train."""
    frozen_random: str = ""
    """The expression with which its `call` draws Python random numbers just once per trace: "np.random.normal"."""
    loses_mask: bool = False
    """True if its input has a mask but its output has none."""
    is_on_path: bool = True
    """True if it belongs to the model's own graph, or to a nested functional model, so that `feeds` is known."""

    def __getitem__(self, name: str) -> Any:
        """Return the layer's setting with this name, or None."""
        return self.settings.get(name)


@dataclass(frozen=True)
class Loss:
    """The loss of one output."""

    kind: str
    """The Keras name in snake case, "sparse_categorical_crossentropy", or the name of a custom class or function."""
    is_keras: bool = True
    from_logits: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The loss's label_smoothing, ignore_class, axis, reduction, … where it has them."""
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
    """True if the Keras loss expects integer class labels as targets."""
    return loss is not None and loss.is_keras and loss.kind == _SPARSE


def is_categorical(loss: Loss | None) -> bool:
    """True if the Keras loss expects one probability per class as targets."""
    return loss is not None and loss.is_keras and _FOCAL.get(loss.kind, loss.kind) == _CATEGORICAL


def is_binary(loss: Loss | None) -> bool:
    """True if the Keras loss compares each unit with a target of 0 or 1."""
    return loss is not None and loss.is_keras and _FOCAL.get(loss.kind, loss.kind) == _BINARY


def is_crossentropy(loss: Loss | None) -> bool:
    """True if the Keras loss treats the output as probabilities or their logits."""
    return is_sparse(loss) or is_categorical(loss) or is_binary(loss)


def is_regression(loss: Loss | None) -> bool:
    """True if the Keras loss compares the output with plain numbers."""
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
    """True if Keras knows whether higher is better; it does not for custom metrics and a plain Mean."""


@dataclass(frozen=True)
class Output:
    """One output of the model."""

    name: str
    shape: Shape | None
    dtype: str = "float32"
    layer: LayerFacts | None = None
    """The layer that computes its values, skipping layers that only reshape; None if unknown."""
    activation: str = ""
    """The last activation: "softmax", "sigmoid", "linear", "relu", ...; empty if unknown."""
    loss: Loss | None = None
    metrics: tuple[MetricFacts, ...] = ()

    @property
    def units(self) -> int | None:
        """The size of the output's last dimension; None if unknown."""
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
    """The optimizer; the inner one if a loss scaler wraps it."""

    kind: str
    """The class name: "Adam"."""
    learning_rate: float | None = None
    """The learning rate at the first step; None if unknown."""
    schedule: str = ""
    """The class name of the schedule; empty for a fixed rate."""
    rates: tuple[float, ...] = ()
    """The schedule's learning rates after 0, 25, 50, 75 and 100 % of the steps; empty if unknown."""
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
    """True if `call` is custom, so layers are not necessarily used in their listed order."""
    swapped_loss: str = ""
    """The name of the loss that a custom loop calls with targets and predictions swapped; empty if there is none."""
    run_eagerly: bool = False
    pretrained: str = ""
    """The keras.applications model that it contains: "efficientnetb0"."""
    has_added_losses: bool = False
    """True if layers or the model add losses: regularisers, `add_loss`, `compute_loss`."""
    operations: tuple[str, ...] = ()
    """The kinds of operations, other than layers, that its inputs pass through before any weights: "TrueDivide"."""
    logged: tuple[str, ...] = ()
    """The names of metrics that belong to layers or to the model itself, in addition to those of `compile`."""

    def layer(self, name: str) -> LayerFacts | None:
        """Return the layer with this name, or None."""
        return next((layer for layer in self.layers if layer.name == name), None)
