"""Promises how exact micro-batches will be, before any are needed: exact, approximate, to be probed, or restart only.

"exact": the divided step's update equals the full batch's, up to rounding. It is promised for Keras' own train step
with layers, losses and metrics that are known, by class and arguments, to treat each sample independently. Each entry
of these lists is compared with Keras in tests/tensorflow/micro_batch/test_by_construction.py. Everything else is
probed, even some of Keras' own classes: for example, the losses Dice and Tversky sum over the whole batch unless they
are given axes. Before a batch is split, every model, known or not, is probed with samples of that batch (`probe.py`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import tensorflow as tf

from oomph.keras_bridge.dialects import Dialect, dialect_of
from oomph.keras_bridge.graph import Slot, handles_of
from oomph.keras_bridge.names import support
from oomph.keras_bridge.names.keras3 import KERAS
from oomph.keras_bridge.names.row import Feature
from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW
from oomph.keras_bridge.workers import name_of, spans_workers
from oomph.protocol.reason_table import NORMALIZATION

Check = Callable[[Any], bool]


def _along_features(thing: Any) -> bool:
    """True if a layer or an operation has an axis argument and it never refers to the batch axis."""
    axes = getattr(thing, "axis", None)
    return axes is not None and all(int(axis) == -1 or int(axis) > 0 for axis in tf.nest.flatten(axes))


def _between_features(layer: Any) -> bool:
    return all(int(axis) > 0 for axis in tf.nest.flatten(layer.axes))


def _forgets(layer: Any) -> bool:
    return not getattr(layer, "stateful", False)


def _without_noise_shape(layer: Any) -> bool:
    return getattr(layer, "noise_shape", None) is None


def _along_last_axis(thing: Any) -> bool:
    """True if a loss or metric works along the last axis, which is the default."""
    return bool(KERAS.function_arguments.get(thing, {}).get("axis", -1) == -1)


def _always(thing: Any) -> bool:
    return True


_LAYERS: dict[str, Check] = {
    **dict.fromkeys(
        (
            "InputLayer", "Identity", "Activation", "Dense", "EinsumDense", "Embedding", "Masking", "Rescaling",
            "Conv1D", "Conv2D", "Conv3D", "Conv1DTranspose", "Conv2DTranspose", "Conv3DTranspose", "SeparableConv1D",
            "SeparableConv2D", "DepthwiseConv1D", "DepthwiseConv2D", "MaxPooling1D", "MaxPooling2D", "MaxPooling3D",
            "AveragePooling1D", "AveragePooling2D", "AveragePooling3D", "GlobalMaxPooling1D", "GlobalMaxPooling2D",
            "GlobalMaxPooling3D", "GlobalAveragePooling1D", "GlobalAveragePooling2D", "GlobalAveragePooling3D",
            "Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum", "Flatten", "Reshape", "Permute",
            "RepeatVector", "Cropping1D", "Cropping2D", "Cropping3D", "UpSampling1D", "UpSampling2D", "UpSampling3D",
            "ZeroPadding1D", "ZeroPadding2D", "ZeroPadding3D", "ReLU", "LeakyReLU", "ELU", "PReLU", "GaussianNoise",
            "GaussianDropout", "SpatialDropout1D", "SpatialDropout2D", "SpatialDropout3D", "MultiHeadAttention",
            "GroupQueryAttention", "GroupedQueryAttention", "Attention", "AdditiveAttention", "TimeDistributed",
            "LSTMCell", "GRUCell", "SimpleRNNCell", "StackedRNNCells", "ConvLSTMCell",
            "BatchNormalization",  # the promise reports it separately
        ),
        _always,
    ),
    **dict.fromkeys(("LSTM", "GRU", "SimpleRNN", "RNN", "Bidirectional", "ConvLSTM1D", "ConvLSTM2D"), _forgets),
    **dict.fromkeys(("Dropout", "AlphaDropout"), _without_noise_shape),
    **dict.fromkeys(
        ("LayerNormalization", "GroupNormalization", "UnitNormalization", "RMSNormalization", "Softmax", "Concatenate"),
        _along_features,
    ),
    "Dot": _between_features,
}  # fmt: skip
_LOSSES = (
    "MeanSquaredError", "MeanAbsoluteError", "MeanAbsolutePercentageError", "MeanSquaredLogarithmicError",
    "BinaryCrossentropy", "BinaryFocalCrossentropy", "CategoricalCrossentropy", "CategoricalFocalCrossentropy",
    "SparseCategoricalCrossentropy", "CategoricalHinge", "Hinge", "SquaredHinge", "Huber", "KLDivergence", "LogCosh",
    "Poisson", "CosineSimilarity",
)  # fmt: skip
_LOSS_FUNCTIONS = (
    "mean_squared_error", "mean_absolute_error", "mean_absolute_percentage_error", "mean_squared_logarithmic_error",
    "binary_crossentropy", "binary_focal_crossentropy", "categorical_crossentropy", "categorical_focal_crossentropy",
    "sparse_categorical_crossentropy", "categorical_hinge", "hinge", "squared_hinge", "huber", "kl_divergence",
    "log_cosh", "poisson", "cosine_similarity",
)  # fmt: skip
_METRICS = (
    "Accuracy", "BinaryAccuracy", "CategoricalAccuracy", "SparseCategoricalAccuracy", "TopKCategoricalAccuracy",
    "SparseTopKCategoricalAccuracy", "BinaryCrossentropy", "CategoricalCrossentropy", "SparseCategoricalCrossentropy",
    "KLDivergence", "Poisson", "MeanSquaredError", "RootMeanSquaredError", "MeanAbsoluteError",
    "MeanAbsolutePercentageError", "MeanSquaredLogarithmicError", "CosineSimilarity", "LogCoshError", "R2Score", "AUC",
    "Precision", "Recall", "TruePositives", "TrueNegatives", "FalsePositives", "FalseNegatives",
    "PrecisionAtRecall", "RecallAtPrecision", "SensitivityAtSpecificity", "SpecificityAtSensitivity", "Hinge",
    "SquaredHinge", "CategoricalHinge", "FBetaScore", "F1Score", "IoU", "BinaryIoU", "MeanIoU", "OneHotIoU",
    "OneHotMeanIoU",
)  # fmt: skip
_METRIC_FUNCTIONS = (
    *_LOSS_FUNCTIONS, "binary_accuracy", "categorical_accuracy", "sparse_categorical_accuracy",
    "top_k_categorical_accuracy", "sparse_top_k_categorical_accuracy",
)  # fmt: skip
_SHORT = ("accuracy", "acc", "crossentropy", "ce")
"""The metric names for which Keras chooses a class based on the output shapes."""
_OPERATIONS: dict[str, Check] = {
    **dict.fromkeys(("Add", "Subtract", "Multiply", "Divide", "Equal", "NotEqual", "LogicalAnd"), _always),
    **dict.fromkeys(("Any", "All"), _along_features),
}
"""The check for each operation of a functional model that is not a layer, such as those that build masks."""
_MODELS = ("Sequential", "Functional")
_ACTIVATIONS = ("activation", "recurrent_activation")


def unproved_layer(model: Any) -> str:
    """Describe the first part of a model in which samples may affect each other; empty if there is none."""
    keras = dialect_of(model)
    layers = KERAS.flatten_layers.call(model, include_self=False)
    inner = (found for layer in layers for found in _unproved_in(layer, keras))
    return next(itertools.chain(_operations_of(model, keras), inner), "")


def unproved_loss(model: Any) -> str:
    """Describe the first loss of a compiled model that may combine several samples; empty if there is none."""
    keras = dialect_of(model)
    for loss in tf.nest.flatten(model.loss):
        if loss is not None and not _is_proved(loss, keras, "losses", _LOSSES, _LOSS_FUNCTIONS):
            return f"{_whose(loss, keras)}loss {_name_of(loss)}"
    return ""


def unproved_metric(model: Any) -> str:
    """Describe the first metric of a compiled model that might not add up over samples; empty if there is none."""
    keras = dialect_of(model)
    compiled = keras.compiled_metrics(model)
    given = [row.get(compiled) for row in (KERAS.user_metrics, KERAS.user_weighted_metrics)]
    for metric in tf.nest.flatten(given):
        if metric is not None and not _is_proved(metric, keras, "metrics", _METRICS, _METRIC_FUNCTIONS):
            return f"{_whose(metric, keras)}metric {_name_of(metric)}"
    return ""


def _unproved_in(layer: Any, keras: Dialect) -> Iterator[str]:
    name = type(layer).__name__
    if name in _MODELS and _is_of_keras(type(layer), keras):
        yield from _operations_of(layer, keras)
        return
    if not _is_of_keras(type(layer), keras):
        yield f"custom layer {name}"
        return
    if not (name in _LAYERS and _LAYERS[name](layer)):
        yield f"layer {name}"
    if getattr(layer, "activity_regularizer", None) is not None:
        yield f"activity regularizer of layer {name}"
    for each in _ACTIVATIONS:
        if not _is_known_activation(getattr(layer, each, None), keras.public):
            yield f"{each} of layer {name}"


def _operations_of(model: Any, keras: Dialect) -> Iterator[str]:
    """Describe each operation outside a functional model's layers in which samples may affect each other."""
    layer = keras.public.layers.Layer
    for operation in getattr(model, "operations", ()):
        name = type(operation).__name__
        if not (isinstance(operation, layer) or (name in _OPERATIONS and _OPERATIONS[name](operation))):
            yield f"operation {name}"


def _is_known_activation(activation: Any, keras: ModuleType) -> bool:
    if activation is None or isinstance(activation, keras.layers.Layer):  # that layer is checked separately
        return True
    return getattr(keras.activations, getattr(activation, "__name__", ""), None) is activation


def _is_proved(given: Any, keras: Dialect, module: str, classes: tuple[str, ...], functions: tuple[str, ...]) -> bool:
    """True if a loss or metric, in any form that Keras accepts, is listed."""
    public = getattr(keras.public, module)
    if isinstance(given, str):
        if given in _SHORT:
            return True
        try:
            given = public.get(given)
        except ValueError:
            return False  # let Keras raise its own error
    if isinstance(given, type):
        return any(given is getattr(public, name, None) for name in classes)
    name = type(given).__name__
    if type(given) is getattr(public, name, None):
        return name in classes and _along_last_axis(given)
    name = getattr(given, "__name__", "")
    return name in functions and _is_of_keras(given, keras)


def _whose(given: Any, keras: Dialect) -> str:
    is_of_keras = isinstance(given, str) or _is_of_keras(type(given), keras) or _is_of_keras(given, keras)
    return "" if is_of_keras else "custom "


def _name_of(given: Any) -> str:
    return given if isinstance(given, str) else getattr(given, "__name__", type(given).__name__)


def _is_of_keras(thing: Any, keras: Dialect) -> bool:
    return str(getattr(thing, "__module__", "") or "").startswith(keras.packages)


EXACT, APPROXIMATE, RESTART_ONLY = "exact", "approximate", "restart only"
TO_BE_PROBED = "probed before a batch is divided"
SMALLER = "smaller batches"
"""The kind of promise under which a batch may be split into smaller batches, each with its own update."""
REFUSED = "refused"
BATCH_NORMALIZATION = "BatchNormalization sees only one micro-batch at a time"
_STRATEGIES = (
    *TENSORFLOW.default_strategy.names, *TENSORFLOW.extension_of_default_strategy.names,
    "MirroredStrategy", "OneDeviceStrategy",
)  # fmt: skip


@dataclass(frozen=True)
class Promise:
    """The guarantee for a fit, and the reason that it is not stronger."""

    kind: str
    reason: str = ""
    """The reason why the promise is not stronger."""
    coupling: str = ""
    """The known reason that samples in a batch are coupled, if any."""

    @property
    def refused(self) -> bool:
        """True if batches must not be split."""
        return self.kind == REFUSED

    def __str__(self) -> str:
        return f"{self.kind}: {self.reason}" if self.reason else self.kind


def promise_before_tracing(model: Any, step: str = "train_step") -> Promise:
    """Return the promise based on the compiled model alone; "exact" may later turn out to be only approximate.

    Args:
        step: the method to guard, "train_step" or "test_step".
    """
    keras: Any = dialect_of(model)
    lacking = support.lacks(Feature.EXACT_STEP, keras.names)
    if lacking:
        return Promise(RESTART_ONLY, lacking)
    if type(model).make_train_function is not keras.trainer.make_train_function:
        return Promise(RESTART_ONLY, "custom make_train_function")
    if tf.distribute.has_strategy() and keras.strategy_of(model) is None:
        return Promise(RESTART_ONLY, "the model was created outside the strategy scope in which it is trained")
    if spans_workers(model.distribute_strategy):
        hindrance = _hindrance_under_workers(model, step)
        if hindrance:
            return Promise(RESTART_ONLY, f"{hindrance} under {name_of(model.distribute_strategy)}")
    elif type(model.distribute_strategy).__name__ not in _STRATEGIES:
        return Promise(RESTART_ONLY, name_of(model.distribute_strategy))
    if model.run_eagerly and model.distribute_strategy.num_replicas_in_sync > 1:
        return Promise(RESTART_ONLY, "run_eagerly with several replicas")
    hindrance = keras.hindrance(model)
    if hindrance:
        return Promise(RESTART_ONLY, hindrance)
    unknown = _unknown_step(model, step) or _unknown_loss(model) or _unknown_layer(model)
    unknown = unknown or unproved_metric(model)
    return Promise(TO_BE_PROBED, unknown) if unknown else Promise(EXACT)


def _hindrance_under_workers(model: Any, step: str) -> str:
    """Return the reason why a worker cannot repeat a step by itself; empty if it can."""
    if step != "train_step":
        return "evaluation"
    if support.lacks(Feature.SEVERAL_WORKERS):
        return support.lacks(Feature.SEVERAL_WORKERS)
    return "jit_compile" if model.jit_compile else ""


def promise_for_predict(model: Any) -> Promise:
    """Return the promise for the outputs of `predict`, based on the model alone; losses and metrics are irrelevant."""
    keras: Any = dialect_of(model)
    own = type(model).predict_step is not keras.trainer.predict_step
    unknown = "custom predict_step" if own else _unknown_layer(model)
    return Promise(TO_BE_PROBED, unknown) if unknown else Promise(EXACT)


def promise_after_tracing(promise: Promise, model: Any, written: list[Slot]) -> Promise:
    """Refine the promise using the state that the traced step writes before its commit."""
    if promise.kind == RESTART_ONLY or not _moving_statistics_are_written(model, written):
        return promise
    if promise.reason:
        return Promise(promise.kind, f"{promise.reason}; {BATCH_NORMALIZATION}", NORMALIZATION)
    return Promise(APPROXIMATE, BATCH_NORMALIZATION, NORMALIZATION)


def _unknown_step(model: Any, step: str) -> str:
    base = dialect_of(model).trainer
    for method in (step, "compute_loss"):
        if getattr(type(model), method) is not getattr(base, method):
            return f"custom {method}"
    return ""


def _unknown_loss(model: Any) -> str:
    return "no loss in compile" if model.loss is None or model.loss == {} else unproved_loss(model)


def _unknown_layer(model: Any) -> str:
    custom_call = layer_class(model) not in ("Sequential", "Functional")
    return unproved_layer(model) or (f"custom model {type(model).__name__}" if custom_call else "")


def layer_class(model: Any) -> str:
    """Return the name of a model's nearest Keras class, or "custom" if a subclass overrides `call`."""
    packages = dialect_of(model).packages
    cls = next((c for c in type(model).__mro__ if c.__module__.startswith(packages)), type(model))
    return "custom" if cls is not type(model) and "call" in vars(type(model)) else cls.__name__


def _moving_statistics_are_written(model: Any, written: list[Slot]) -> bool:
    handles = {id(slot.handle) for slot in written}
    layers = [
        layer for layer in KERAS.flatten_layers.call(model) if getattr(layer, "moving_variance", None) is not None
    ]
    return any(not handles.isdisjoint(handles_of([layer.moving_variance])) for layer in layers)
