"""The compiled model as the rules see it: layers, outputs with their losses and metrics, the optimizer."""

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
    """The weights of one layer, without those of layers inside of it."""

    trainable: int = 0
    """Number of trained values."""
    frozen: int = 0
    not_finite: int = 0
    """Number of values that are NaN or infinite."""
    is_constant: bool = False
    """True if each kernel holds a single value; False without a kernel."""
    is_fresh: bool | None = None
    """True if its biases, or its normalisation statistics, have their initial values; None without these."""


@dataclass(frozen=True)
class LayerFacts:
    """One layer, including those in nested models."""

    name: str
    kind: str
    """The name of its class: "Dense"."""
    is_keras: bool = True
    """True if the class is Keras' own, so that `settings` have their documented meaning."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The plain values of its configuration: units, activation (by its name), rate, input_dim, axis, ..."""
    input_shapes: tuple[Shape, ...] = ()
    output_shape: Shape | None = None
    compute_dtype: str = "float32"
    variable_dtype: str = "float32"
    trainable: bool = True
    weights: Weights = Weights()
    feeds: tuple[str, ...] = ()
    """The names of the layers that take its output; empty where that is not known, as in a subclassed model."""
    untracked: tuple[str, ...] = ()
    """The attributes of the user's own layer that hold trainable tf.Variables, which Keras 3 does not train."""
    frozen_random: str = ""
    """The call by which its `call` draws Python random numbers, only once per trace: "np.random.normal"."""
    loses_mask: bool = False
    """True if its input has a mask and its output has none."""
    is_on_path: bool = True
    """True if it is a layer of the model's own graph, or of a nested functional model, so that `feeds` is known."""

    def __getitem__(self, name: str) -> Any:
        """The layer's setting with this name, or None."""
        return self.settings.get(name)


@dataclass(frozen=True)
class Loss:
    """The loss of one output."""

    kind: str
    """Keras name in snake case: "sparse_categorical_crossentropy"; the user's own by class or function name."""
    is_keras: bool = True
    from_logits: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The loss's label_smoothing, ignore_class, axis, reduction, ... as far as it has them."""
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
    """True if Keras' loss takes the numbers of classes as targets."""
    return loss is not None and loss.is_keras and loss.kind == _SPARSE


def is_categorical(loss: Loss | None) -> bool:
    """True if Keras' loss takes one probability for each class as targets."""
    return loss is not None and loss.is_keras and _FOCAL.get(loss.kind, loss.kind) == _CATEGORICAL


def is_binary(loss: Loss | None) -> bool:
    """True if Keras' loss compares each unit with a target of 0 or 1."""
    return loss is not None and loss.is_keras and _FOCAL.get(loss.kind, loss.kind) == _BINARY


def is_crossentropy(loss: Loss | None) -> bool:
    """True if Keras' loss takes the output for probabilities, or for their logits."""
    return is_sparse(loss) or is_categorical(loss) or is_binary(loss)


def is_regression(loss: Loss | None) -> bool:
    """True if Keras' loss compares the output with numbers as they are."""
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
    """True if Keras knows whether higher is better, which it does not for user-defined metrics and a plain Mean."""


@dataclass(frozen=True)
class Output:
    """One output of the model."""

    name: str
    shape: Shape | None
    dtype: str = "float32"
    layer: LayerFacts | None = None
    """The layer that makes its values, skipping layers that only reshape; None if unknown."""
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
    """The optimizer; the inner one if it scales the loss."""

    kind: str
    """The name of its class: "Adam"."""
    learning_rate: float | None = None
    """The learning rate at the first step; None if unknown."""
    schedule: str = ""
    """The name of the class of the schedule; empty for a fixed rate."""
    rates: tuple[float, ...] = ()
    """The schedule's learning rates at 0, 25, 50, 75 and 100 % of the steps; empty if unknown."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The optimizer's momentum, beta_1, epsilon, clipnorm, weight_decay, ..."""
    scales_loss: bool = False


@dataclass(frozen=True)
class Model:
    """The compiled model."""

    kind: str
    """"Sequential", "Functional", or the name of the user's own class."""
    layers: tuple[LayerFacts, ...]
    """Layers, in graph order if there is a graph."""
    outputs: tuple[Output, ...]
    inputs: tuple[Input, ...] = ()
    """The inputs; empty if they are not known, as in a subclassed model."""
    input_keys: tuple[str, ...] = ()
    """The keys of the dictionary that the model was built with; empty for other structures."""
    optimizer: OptimizerFacts = OptimizerFacts("SGD")
    own_train_step: bool = False
    own_call: bool = False
    """True if the user wrote `call`, so that layers need not be used in their order."""
    swapped_loss: str = ""
    """The loss that a custom loop calls with the output of a model as the target; empty if there is none."""
    run_eagerly: bool = False
    pretrained: str = ""
    """The keras.applications model in it: "efficientnetb0"."""
    has_added_losses: bool = False
    """True if layers or the model add losses of their own: regularisers, `add_loss`, `compute_loss`."""
    operations: tuple[str, ...] = ()
    """The kinds of the operations, which are no layers, that its inputs pass before any weights: "TrueDivide"."""
    logged: tuple[str, ...] = ()
    """The names of metrics held by layers and the model itself, besides those of `compile`."""

    def layer(self, name: str) -> LayerFacts | None:
        """The layer with this name, or None."""
        return next((layer for layer in self.layers if layer.name == name), None)
