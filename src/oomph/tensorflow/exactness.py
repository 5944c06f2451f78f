"""What micro-batches may be promised for a model: exact, approximate, or nothing but restarts.

"exact": the update of the divided step is the update of the whole batch, up to rounding. Known when every part of the
loss is a mean over samples or a term without samples, and the traced step writes no state that depends on how
the batch is divided. The graph itself says what a step writes; names of layers are only used to word the reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from oomph.tensorflow.written import Slot, tensorflow_variable

EXACT, APPROXIMATE, RESTART_ONLY = "exact", "approximate", "restart only"
_MEAN_OVER_SAMPLES = "sum_over_batch_size"


@dataclass(frozen=True)
class Promise:
    """How a fit is guarded, and why not better."""

    kind: str
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.kind}: {self.reason}" if self.reason else self.kind


def promise_before_tracing(model: Any, trainer: Any) -> Promise:
    """What can be said from the compiled model alone; "exact" may still turn out to be approximate."""
    reason = _restart_only_reason(model, trainer)
    if reason:
        return Promise(RESTART_ONLY, reason)
    unknown = _unverified_layer(model)
    return Promise(APPROXIMATE, f"custom layer {unknown} is not verified") if unknown else Promise(EXACT)


def promise_after_tracing(promise: Promise, model: Any, written: list[Slot]) -> Promise:
    """The same with what the traced step writes before its commit."""
    if promise.kind == RESTART_ONLY:
        return promise
    handles = {id(slot.handle) for slot in written}
    if _any_written(_seed_states(model), handles):
        return Promise(APPROXIMATE, "random layers such as Dropout draw other numbers for micro-batches")
    if _any_written(_moving_statistics(model), handles):
        return Promise(APPROXIMATE, "BatchNormalization would see each micro-batch alone")
    return promise


def _restart_only_reason(model: Any, trainer: Any) -> str:
    base = trainer.TensorFlowTrainer
    for method in ("train_step", "make_train_function"):
        if getattr(type(model), method) is not getattr(base, method):
            return f"custom {method}"
    if type(model).compute_loss is not base.compute_loss:
        return "custom compute_loss"
    if type(model.distribute_strategy).__name__ not in ("_DefaultDistributionStrategy", "_DefaultDistributionExtended"):
        return f"{type(model.distribute_strategy).__name__}"
    if model.run_eagerly:
        return "run_eagerly"
    if model.steps_per_execution != 1:
        return f"steps_per_execution={model.steps_per_execution}"
    return _loss_reason(model) or _masking_reason(model) or _activity_reason(model)


def _loss_reason(model: Any) -> str:
    if model.loss is None:
        return "no loss in compile"
    for loss in tf.nest.flatten(model.loss):
        if loss is None or isinstance(loss, str):
            continue  # Keras' own names all mean: the mean over samples
        reduction = getattr(loss, "reduction", _MEAN_OVER_SAMPLES)
        if reduction != _MEAN_OVER_SAMPLES:
            return f'loss reduction "{reduction}"'
        if not _is_of_keras(loss):
            return f"custom loss {getattr(loss, '__name__', type(loss).__name__)}"
    return ""


def _masking_reason(model: Any) -> str:
    for layer in model._flatten_layers():
        if getattr(layer, "mask_zero", False) or type(layer).__name__ == "Masking":
            return "masked sequences"
    return ""


def _activity_reason(model: Any) -> str:
    for layer in model._flatten_layers():
        if getattr(layer, "activity_regularizer", None) is not None:
            return f"activity regulariser of {layer.name}"
    return ""


def _unverified_layer(model: Any) -> str:
    for layer in model._flatten_layers():
        if layer is not model and not _is_of_keras(layer):
            return type(layer).__name__
    custom_call = layer_class(model) not in ("Sequential", "Functional")
    return type(model).__name__ if custom_call else ""


def layer_class(model: Any) -> str:
    """The nearest class of a model that Keras itself defines."""
    cls = next((c for c in type(model).__mro__ if c.__module__.startswith("keras.")), type(model))
    return "custom" if cls is not type(model) and "call" in vars(type(model)) else cls.__name__


def _is_of_keras(thing: Any) -> bool:
    module = getattr(thing, "__module__", "") or type(thing).__module__
    return module.startswith("keras.")


def _seed_states(model: Any) -> list[Any]:
    return [v for v in model.non_trainable_variables if "seed_generator_state" in getattr(v, "path", v.name)]


def _moving_statistics(model: Any) -> list[Any]:
    seeds = {id(v) for v in _seed_states(model)}
    return [v for v in model.non_trainable_variables if id(v) not in seeds]


def _any_written(variables: list[Any], handles: set[int]) -> bool:
    return any(id(tensorflow_variable(v).handle) in handles for v in variables)
