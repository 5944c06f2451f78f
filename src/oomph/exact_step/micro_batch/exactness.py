"""Promises about a model's micro-batches before they are needed: exact, approximate, probe, or restarts only.

"exact": the update of the divided step equals the update of the full batch, up to rounding. It is promised for Keras'
own train step with layers, losses and metrics that treat each sample independently (`by_construction.py`). Before a
batch is split, every model, known or not, is probed with samples of that batch (`probe.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from oomph.exact_step.micro_batch.by_construction import unproved_layer, unproved_loss, unproved_metric
from oomph.keras_bridge.graph.write_set import Slot, handles_of
from oomph.keras_bridge.names import support
from oomph.keras_bridge.names.keras3 import KERAS
from oomph.keras_bridge.names.row import Feature
from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW
from oomph.protocol.reason_table import NORMALIZATION

EXACT, APPROXIMATE, RESTART_ONLY = "exact", "approximate", "restart only"
TO_BE_PROBED = "probed before a batch is divided"
SMALLER = "smaller batches"
"""The kind of a promise under which a batch is split into smaller batches, each with its own update."""
REFUSED = "refused"
BATCH_NORMALIZATION = "BatchNormalization sees each micro-batch alone"
_STRATEGIES = (
    *TENSORFLOW.default_strategy.names, *TENSORFLOW.extension_of_default_strategy.names,
    "MirroredStrategy", "OneDeviceStrategy",
)  # fmt: skip


@dataclass(frozen=True)
class Promise:
    """The guarantee for a fit, and the reason it is no better."""

    kind: str
    reason: str = ""
    """The reason the promise is no better, in words."""
    coupling: str = ""
    """The known reason for a coupling of samples in a batch, if any."""

    @property
    def refused(self) -> bool:
        """True if no batch may be split."""
        return self.kind == REFUSED

    def __str__(self) -> str:
        return f"{self.kind}: {self.reason}" if self.reason else self.kind


def promise_before_tracing(model: Any, step: str = "train_step") -> Promise:
    """The promise from the compiled model alone; "exact" may still turn out to be approximate.

    Args:
        step: the method to guard, "train_step" or "test_step".
    """
    lacking = support.lacks(Feature.EXACT_STEP)
    if lacking:
        return Promise(RESTART_ONLY, lacking)
    if type(model).make_train_function is not KERAS.trainer.value().make_train_function:
        return Promise(RESTART_ONLY, "custom make_train_function")
    if tf.distribute.has_strategy() and KERAS.distribute_strategy.get(model) is None:
        return Promise(RESTART_ONLY, "the model was made outside the scope that it is trained in")
    if type(model.distribute_strategy).__name__ not in _STRATEGIES:
        return Promise(RESTART_ONLY, type(model.distribute_strategy).__name__)
    if model.run_eagerly and model.distribute_strategy.num_replicas_in_sync > 1:
        return Promise(RESTART_ONLY, "run_eagerly with several replicas")
    if model.steps_per_execution > 1 and not hasattr(model, "unrolled_steps_per_execution"):
        return Promise(RESTART_ONLY, "steps_per_execution with this version of Keras")  # it ends its epochs differently
    unknown = _unknown_step(model, step) or _unknown_loss(model) or _unknown_layer(model)
    unknown = unknown or unproved_metric(model)
    return Promise(TO_BE_PROBED, unknown) if unknown else Promise(EXACT)


def promise_for_predict(model: Any) -> Promise:
    """The promise for the outputs of `predict`, from the model alone. Losses and metrics do not matter."""
    own = type(model).predict_step is not KERAS.trainer.value().predict_step
    unknown = "custom predict_step" if own else _unknown_layer(model)
    return Promise(TO_BE_PROBED, unknown) if unknown else Promise(EXACT)


def promise_after_tracing(promise: Promise, model: Any, written: list[Slot]) -> Promise:
    """The promise, given what the traced step writes before its commit."""
    if promise.kind == RESTART_ONLY or not _moving_statistics_are_written(model, written):
        return promise
    if promise.reason:
        return Promise(promise.kind, f"{promise.reason}; {BATCH_NORMALIZATION}", NORMALIZATION)
    return Promise(APPROXIMATE, BATCH_NORMALIZATION, NORMALIZATION)


def _unknown_step(model: Any, step: str) -> str:
    base = KERAS.trainer.value()
    for method in (step, "compute_loss"):
        if getattr(type(model), method) is not getattr(base, method):
            return f"custom {method}"
    return ""


def _unknown_loss(model: Any) -> str:
    return "no loss in compile" if model.loss is None else unproved_loss(model)


def _unknown_layer(model: Any) -> str:
    custom_call = layer_class(model) not in ("Sequential", "Functional")
    return unproved_layer(model) or (f"custom model {type(model).__name__}" if custom_call else "")


def layer_class(model: Any) -> str:
    """The nearest class of a model that Keras defines; "custom" if a subclass overrides `call`."""
    cls = next((c for c in type(model).__mro__ if c.__module__.startswith("keras.")), type(model))
    return "custom" if cls is not type(model) and "call" in vars(type(model)) else cls.__name__


def _moving_statistics_are_written(model: Any, written: list[Slot]) -> bool:
    handles = {id(slot.handle) for slot in written}
    layers = [
        layer for layer in KERAS.flatten_layers.call(model) if getattr(layer, "moving_variance", None) is not None
    ]
    return any(not handles.isdisjoint(handles_of([layer.moving_variance])) for layer in layers)
