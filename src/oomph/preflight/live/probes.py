"""Probes a compiled model: first gradients, layer outputs, leaks of targets into inputs, answers that losses prefer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from oomph.keras_bridge.names.keras3 import KERAS
from oomph.preflight.facts.model import Output
from oomph.preflight.facts.training import Activity, Gradient, InputRange, LossOrder
from oomph.preflight.live.layer_facts import losses_by_output
from oomph.preflight.live.plain_values import float_of, is_of_keras

Array = np.ndarray[Any, Any]
_SHIFTED_SHARE = 0.95
_DIFFERENT = 1e-4
_LOGIT, _SURE = 5.0, 0.999
_OF_DISTANCES = ("contrastive", "triplet", "siamese", "distance")
"""Losses with these words in their names may expect a small output for a target of 1."""


def first_gradients(model: Any, x: Any, y: Any, weight: Any) -> tuple[list[Gradient], Seen, float]:
    """Return the gradients of the first step; none for a custom train_step, which may do anything."""
    if type(model).train_step is not KERAS.trainer.value().train_step:
        return [], Seen(), 0.0
    seen = Seen()
    try:
        x, y, weight = (keras.tree.map_structure(_tensor, part) for part in (x, y, weight))
        with observed(model, seen), tf.GradientTape() as tape:
            outputs = model(x, training=True)
            loss = model.compute_loss(x=x, y=y, y_pred=outputs, sample_weight=weight, training=True)
        added = sum(float_of(each) or 0.0 for each in model.losses)
        variables = list(model.trainable_variables)
        found = tape.gradient(loss, [variable.value for variable in variables])
    except Exception:  # the step itself will report why
        return [], seen, 0.0
    owners = {id(variable): layer.name for layer in model.layers for variable in layer.trainable_variables}
    return [
        _gradient(variable, gradient, owners.get(id(variable), ""))
        for variable, gradient in zip(variables, found, strict=True)
    ], seen, added  # fmt: skip


def _tensor(value: Any) -> Any:
    if value is None or isinstance(value, (tf.RaggedTensor, tf.SparseTensor)):
        return value
    tensor = tf.convert_to_tensor(value)
    return tf.cast(tensor, keras.config.floatx()) if tensor.dtype == tf.float64 else tensor


def _gradient(variable: Any, gradient: Any, layer: str) -> Gradient:
    size = float(np.linalg.norm(np.asarray(variable, np.float64)))
    if gradient is None:
        return Gradient(variable.path, layer, True, weight_norm=size)
    values = gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient
    array = np.asarray(values, np.float64)
    return Gradient(variable.path, layer, False, float(np.linalg.norm(array)), size, bool(np.isfinite(array).all()))


_OF_RELU = ("relu", "relu6")
_SATURATING = {"sigmoid": (0.0, 1.0), "hard_sigmoid": (0.0, 1.0), "tanh": (-1.0, 1.0)}
_NEAR = 1e-3
_BY_RANGE = (
    "RandomBrightness", "RandomColorJitter", "RandAugment", "AugMix", "Equalization", "Posterization",
    "RandomPosterization", "RandomInvert", "Solarization", "CLAHE",
)  # fmt: skip
"""Layers whose effect scales with their configured range; other layers only clip to it."""


@dataclass
class Seen:
    """Observations of layers during one forward pass."""

    activities: list[Activity] = field(default_factory=list)
    ranges: list[InputRange] = field(default_factory=list)


@contextmanager
def observed(model: Any, seen: Seen) -> Iterator[None]:
    """Record, within the block, outputs of layers with activations and inputs of layers with a configured range."""
    changed = []
    for layer in KERAS.flatten_layers.of(model)(include_self=False):
        name = _activation(layer)
        if name in _OF_RELU or name in _SATURATING or _told_range(layer) is not None:

            def call(
                *args: Any, _original: Any = layer.call, _layer: Any = layer, _name: str = name, **kwargs: Any
            ) -> Any:
                _note_input(_layer, args, seen.ranges)
                output = _original(*args, **kwargs)
                _note(_layer.name, _name, output, seen.activities)
                return output

            object.__setattr__(layer, "call", call)
            changed.append(layer)
    try:
        yield
    finally:
        for layer in changed:
            object.__delattr__(layer, "call")


def _activation(layer: Any) -> str:
    if type(layer).__name__ == "ReLU" and is_of_keras(type(layer)):
        return "relu"
    return str(getattr(getattr(layer, "activation", None), "__name__", ""))


def _told_range(layer: Any) -> tuple[float, float] | None:
    """Return the pixel range configured for a Keras layer, or None if the layer does not depend on one."""
    told = getattr(layer, "value_range", None)
    if (
        not is_of_keras(type(layer))
        or type(layer).__name__ not in _BY_RANGE
        or not isinstance(told, (list, tuple))
        or len(told) != 2
    ):
        return None
    return float(told[0]), float(told[1])


def _note_input(layer: Any, args: Sequence[Any], found: list[InputRange]) -> None:
    told = _told_range(layer)
    if told is None or not args or not hasattr(args[0], "shape"):
        return
    try:
        array = np.asarray(args[0], np.float32)
    except Exception:  # being traced
        return
    if array.size:
        found.append(InputRange(str(layer.name), float(array.min()), float(array.max()), told))


def _note(name: str, activation: str, output: Any, found: list[Activity]) -> None:
    try:
        array = np.asarray(output, np.float32)
    except Exception:  # being traced, or not a tensor
        return
    if array.ndim < 2 or not array.size:
        return
    columns = array.reshape(-1, array.shape[-1])
    dead = float(np.mean((columns == 0).all(axis=0))) if activation in _OF_RELU else 0.0
    saturated = 0.0
    if activation in _SATURATING:
        low, high = _SATURATING[activation]
        saturated = float(np.mean((array < low + _NEAR * (high - low)) | (array > high - _NEAR * (high - low))))
    found.append(Activity(name, dead, bool(np.isfinite(array).all()), saturated))


def reads_ahead(model: Any, x: Any, y: Any) -> bool:
    """True if a next-element model sees its targets: its earlier outputs change with the last input element."""
    given, wanted = _sequence(x), _sequence(y)
    if given is None or wanted is None or given.shape[:2] != wanted.shape[:2] or given.shape[0] < 2:
        return False
    if given.shape != wanted.shape or np.mean(np.isclose(wanted[:, :-1], given[:, 1:])) < _SHIFTED_SHARE:
        return False
    if np.mean(np.isclose(wanted, given)) > 1 - 1 / given.shape[1] / 2:
        return False  # all elements of each sequence are the same
    changed = given.copy()
    changed[:, -1] = np.where(given[:, -1] == given[0, -1], given[:, 0], given[0, -1])
    try:
        before, again, after = (np.asarray(model(each, training=False), np.float64) for each in (given, given, changed))
    except Exception:  # the step itself will report why
        return False
    if before.ndim < 3 or before.shape[:2] != given.shape[:2] or not np.array_equal(before, again):
        return False  # it may also be a model that remembers the previous call
    difference = np.abs(before - after)[:, :-1].max(initial=0)
    return bool(difference > _DIFFERENT * max(np.abs(before).max(), 1e-12))


def _sequence(value: Any) -> Array | None:
    parts = keras.tree.flatten(value)
    array = np.asarray(parts[0]) if len(parts) == 1 and parts[0] is not None else None
    if array is None or array.ndim < 2 or array.shape[1] < 3 or array.dtype.kind not in "iuf":
        return None
    return array[..., 0] if array.ndim == 3 and array.shape[-1] == 1 else array if array.ndim == 2 else None


def loss_orders(model: Any, outputs: Sequence[Output], y: Any) -> Iterator[LossOrder]:
    """Yield the values of custom losses for the right answer and for a wrong one."""
    targets = keras.tree.flatten(y)
    losses = losses_by_output(model)
    for index, output in enumerate(outputs):
        loss, described = losses.get(index), output.loss
        if described is None or described.is_keras or index >= len(targets) or not callable(loss):
            continue
        if any(word in described.kind.lower() for word in _OF_DISTANCES):
            continue
        answers = _answers(np.asarray(targets[index]), output)
        if answers is None:
            continue
        try:
            # Keras passes the target to a loss in this shape
            target: Array = np.reshape(targets[index], answers[0].shape)
            right, wrong = (_value(loss, target, answer) for answer in answers)
            sure = None if output.activation == "linear" else _value(loss, target, _as_logits(answers[0]))
        except Exception:  # the step itself will report why, if it fails as well
            continue
        yield LossOrder(output.name, described.kind, right, wrong, sure)


def loss_broadcasts(model: Any, outputs: Sequence[Output], x: Any, y: Any) -> str:
    """Find a custom loss object that compares every target with every prediction: "(20,) - (20, 1)".

    For a loss function, Keras reshapes targets to the shape of the predictions, but it passes them unchanged to a
    custom loss class. Return an empty string if there is no such object.
    """
    targets, losses = keras.tree.flatten(y), losses_by_output(model)
    own = [index for index, output in enumerate(outputs) if _is_own_class(losses.get(index), output)]
    if not own or len(targets) != len(outputs):
        return ""
    try:
        predictions = keras.tree.flatten(model(x, training=False))
        for index in own:
            target, shape = np.asarray(targets[index]), tuple(predictions[index].shape)
            if target.ndim != 1 or shape != (len(target), 1) or len(target) < 2:
                continue
            answer = np.linspace(0.1, 0.9, len(target), dtype=np.float32)[:, np.newaxis]  # all values are distinct
            if _ignores_order(losses[index], target, answer) and not _ignores_order(
                losses[index], target[:, np.newaxis], answer
            ):
                return f"{target.shape} - {shape}"
    except Exception:  # the step itself will report why
        return ""
    return ""


def _ignores_order(loss: Any, target: Array, answer: Array) -> bool:
    """True if the pairing of targets and predictions does not matter, as if all pairs were compared."""
    first, other = (_value(loss, each, answer) for each in (target, np.roll(np.sort(target, axis=0), 1, axis=0)))
    return bool(np.isclose(first, other, rtol=1e-4)) and np.isfinite(first)


def _is_own_class(loss: Any, output: Output) -> bool:
    return isinstance(loss, keras.losses.Loss) and output.loss is not None and not output.loss.is_keras


def _value(loss: Any, target: Any, answer: Array) -> float:
    return float(np.mean(np.asarray(loss(keras.ops.convert_to_tensor(target), keras.ops.convert_to_tensor(answer)))))


def _answers(target: Array, output: Output) -> tuple[Array, Array] | None:
    """Return the right answer in the form of this output, and a wrong one, or None if they are unknown."""
    shape = output.shape
    if target.dtype.kind not in "biuf" or shape is None or len(shape) < 2 or target.shape[0] < 4:
        return None
    wanted: Array = target.astype(np.float32)
    if wanted.ndim == len(shape) - 1 and shape[-1] == 1:
        wanted = wanted[..., np.newaxis]
    sizes = zip(shape[1:], wanted.shape[1:], strict=False)
    if wanted.ndim != len(shape) or any(size not in (None, found) for size, found in sizes):
        return None
    is_zero_one = bool(np.all((wanted == 0) | (wanted == 1)))
    if output.activation in ("sigmoid", "softmax") and is_zero_one:
        wrong = np.roll(wanted, 1, axis=-1) if output.activation == "softmax" else 1 - wanted
        return _unsure(wanted), _unsure(wrong)
    if output.activation == "linear":
        if is_zero_one:
            return (2 * wanted - 1) * _LOGIT, (1 - 2 * wanted) * _LOGIT
        other = np.roll(wanted, wanted.shape[0] // 2, axis=0)
        return None if np.allclose(other, wanted) else (wanted, other)
    return None


def _as_logits(probabilities: Array) -> Array:
    """Convert probabilities to large logits that give the same answer."""
    logits: Array = np.where(probabilities > 0.5, _LOGIT, -_LOGIT).astype(np.float32)
    return logits


def _unsure(probabilities: Array) -> Array:
    """Move probabilities away from exactly 0 and 1, whose logarithms may be infinite."""
    unsure: Array = (probabilities * _SURE + (1 - _SURE) / 2).astype(np.float32)
    return unsure
