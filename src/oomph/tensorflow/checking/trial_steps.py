"""Tries a few steps on a few samples, which shows what only running can. This changes the model."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from oomph.preflight.facts.model import Output
from oomph.preflight.facts.trial import Activity, Gradient, InputRange, Prediction, Trial
from oomph.tensorflow.batch import batches
from oomph.tensorflow.checking.plain_values import float_of, is_of_keras
from oomph.tensorflow.checking.probes import loss_orders, reads_ahead
from oomph.tensorflow.names.keras3 import KERAS

_SAMPLES, _STEPS, _SECONDS = 32, 6, 4.0
_OF_RELU = ("relu", "relu6")
_SATURATING = {"sigmoid": (0.0, 1.0), "hard_sigmoid": (0.0, 1.0), "tanh": (-1.0, 1.0)}
_NEAR = 1e-3
_BY_RANGE = (
    "RandomBrightness", "RandomColorJitter", "RandAugment", "AugMix", "Equalization", "Posterization",
    "RandomPosterization", "RandomInvert", "Solarization", "CLAHE",
)  # fmt: skip
"""Layers whose effect is as large as the range that they are told; others only clip to it."""
_MOST_CHARACTERS, _MOST_NUMBERS = 600, 50_000_000
_AROUND = ("Graph execution error", "Detected at node", 'File "', "[[{{node", "Stack trace for op", "[Op:")


def try_steps(model: Any, batch: Any, outputs: Sequence[Output], specification: Any = None) -> Trial:
    """Look at the outputs and gradients of a compiled model for a few samples, and train on them for a few steps.

    Args:
        model: the model.
        batch: as fit gives it to `train_step`.
        outputs: what is known of its outputs.
        specification: the element_spec of the data, where they have one: what it leaves open is unknown to a step.
    """
    output_names = [output.name for output in outputs]
    batch = _first(batch, _SAMPLES)
    x, y, weight = keras.utils.unpack_x_y_sample_weight(batch)
    rows = _rows(x)
    before = _finite(model)
    predictions = list(_predictions(model, x, output_names))
    orders = tuple(loss_orders(model, outputs, y))
    ahead = reads_ahead(model, x, y)
    gradients, seen, added = _gradients(model, x, y, weight)
    weights = _digests(model)
    losses, failed = _train(model, batch, specification)
    after = {each.output: each.spread for each in _predictions(model, x, output_names)} if not failed[0] else {}
    return Trial(
        samples=rows,
        failed=failed[1],
        failed_kind=failed[0],
        losses=tuple(losses),
        predictions=tuple(replace(each, spread_after=after.get(each.output)) for each in predictions),
        gradients=tuple(gradients),
        activities=tuple(seen.activities),
        ranges=tuple(seen.ranges),
        orders=orders,
        reads_ahead=ahead,
        unchanged=weights is not None and bool(losses) and _digests(model) == weights,
        not_reset=tuple(_not_reset(model)) if not failed[0] else (),
        not_finite_after=tuple(
            name for name, finite in _finite(model).items() if not finite and before.get(name, True)
        ),
        added_loss=added,
    )


def _digests(model: Any) -> list[int] | None:
    """A hash of each trained weight; None where there are none, or so many that it would take long."""
    variables = list(model.trainable_variables)
    if not variables or sum(int(np.prod(variable.shape)) for variable in variables) > _MOST_NUMBERS:
        return None
    return [hash(np.asarray(variable).tobytes()) for variable in variables]


def _own_metrics(model: Any) -> Iterator[Any]:
    """The metrics of classes of the user's own."""
    for metric in model.metrics:
        inner = metric.metrics if type(metric).__name__ == "CompileMetrics" else [metric]
        yield from (each for each in inner if not is_of_keras(type(each)))


def _values(metric: Any) -> list[Any]:
    return [np.array(variable) for variable in metric.variables]


def _not_reset(model: Any) -> Iterator[str]:
    """The metrics that steps change and a reset does not."""
    for metric in _own_metrics(model):
        before = _values(metric)
        metric.reset_state()
        same = all(np.array_equal(was, now) for was, now in zip(before, _values(metric), strict=True))
        if same and any(np.any(value != 0) for value in before):
            yield str(metric.name)


def _train(model: Any, batch: Any, specification: Any) -> tuple[list[float], tuple[str, str]]:
    """The losses of a few steps on one batch, by the function that fit calls, and how the first step failed."""
    losses: list[float] = []
    until = time.monotonic() + _SECONDS
    try:
        function = train_function_of(model, specification)
        while len(losses) < _STEPS and (not losses or time.monotonic() < until):
            model.reset_metrics()
            losses.append(_loss_in(function(batch)))
    except Exception as error:  # what the user's model and data raise is what we look for
        return losses, (type(error).__name__, decisive(str(error)))
    return losses, ("", "")


def train_function_of(model: Any, specification: Any = None) -> Callable[[Any], Any]:
    """Trains on one batch, given as fit gives it to `train_step`; returns the logs."""
    unknown = [
        getattr(part, "shape", None) is not None and part.shape.rank is None for part in tf.nest.flatten(specification)
    ]
    model.make_train_function()

    def step(batch: Any) -> Any:
        dataset = tf.data.Dataset.from_tensors(batch).repeat()
        if any(unknown):
            dataset = dataset.map(lambda *parts: _without_shapes(parts if len(parts) > 1 else parts[0], unknown))
        if model.distribute_strategy.num_replicas_in_sync > 1:
            dataset = model.distribute_strategy.experimental_distribute_dataset(dataset)
        return model.train_function(iter(dataset))

    return step


def _without_shapes(parts: Any, unknown: Sequence[bool]) -> Any:
    """The same tensors; where that is asked for, of a rank that a trace does not know."""
    hidden = [
        tf.compat.v1.placeholder_with_default(part, None) if hides else part
        for part, hides in zip(tf.nest.flatten(parts), unknown, strict=True)
    ]
    return tf.nest.pack_sequence_as(parts, hidden)


def decisive(text: str) -> str:
    """An error's own words, without the trace that TensorFlow and Keras put around them."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    kept = [line for line in lines if not line.startswith(_AROUND)]
    return " ".join(kept)[:_MOST_CHARACTERS]


def _loss_in(logs: Any) -> float:
    value = logs.get("loss", next(iter(logs.values()), np.nan)) if isinstance(logs, Mapping) else logs
    found = float_of(np.mean(value))
    return np.nan if found is None else found


def _predictions(model: Any, x: Any, names: Sequence[str]) -> Iterator[Prediction]:
    try:
        outputs = keras.tree.flatten(model(x, training=False))
    except Exception:  # the step will say why
        return
    for index, output in enumerate(outputs):
        name = names[index] if index < len(names) else f"output_{index + 1}"
        try:
            array = np.asarray(output, np.float64)
        except Exception:  # not numbers
            continue
        yield _prediction(name, array)


def _prediction(name: str, array: Any) -> Prediction:
    if not array.size:
        return Prediction(name, array.shape)
    is_finite = bool(np.isfinite(array).all())
    sums = array.sum(axis=-1) if array.ndim > 1 else np.zeros(1)
    return Prediction(
        output=name,
        shape=tuple(int(size) for size in array.shape),
        minimum=float(array.min()),
        maximum=float(array.max()),
        sums_to_one=array.ndim > 1
        and array.shape[-1] > 1
        and array.min() >= 0
        and bool(np.allclose(sums, 1, atol=1e-2)),
        spread=float(array.reshape(array.shape[0], -1).std(axis=0).max()) if array.shape[0] > 1 else None,
        is_finite=is_finite,
    )


@dataclass
class _Seen:
    """What the layers did in one forward pass."""

    activities: list[Activity] = field(default_factory=list)
    ranges: list[InputRange] = field(default_factory=list)


def _gradients(model: Any, x: Any, y: Any, weight: Any) -> tuple[list[Gradient], _Seen, float]:
    """Gradients of the first step; empty for a model with its own train_step, which may mean anything."""
    if type(model).train_step is not KERAS.trainer.value().train_step:
        return [], _Seen(), 0.0
    seen = _Seen()
    try:
        x, y, weight = (keras.tree.map_structure(_tensor, part) for part in (x, y, weight))
        with _observed(model, seen), tf.GradientTape() as tape:
            outputs = model(x, training=True)
            loss = model.compute_loss(x=x, y=y, y_pred=outputs, sample_weight=weight, training=True)
        added = sum(float_of(each) or 0.0 for each in model.losses)
        variables = list(model.trainable_variables)
        found = tape.gradient(loss, [variable.value for variable in variables])
    except Exception:  # the step will say why
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


@contextmanager
def _observed(model: Any, seen: _Seen) -> Iterator[None]:
    """Note what the layers with activations put out, and what those get that must know its range."""
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
    """The range of pixels that a layer of Keras' own was told; None for one that needs none."""
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
    except Exception:  # traced
        return
    if array.size:
        found.append(InputRange(str(layer.name), float(array.min()), float(array.max()), told))


def _note(name: str, activation: str, output: Any, found: list[Activity]) -> None:
    try:
        array = np.asarray(output, np.float32)
    except Exception:  # traced, or not a tensor
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


def _finite(model: Any) -> dict[str, bool]:
    return {
        variable.path: bool(np.isfinite(np.asarray(variable, np.float32)).all())
        for variable in model.weights
        if "float" in str(variable.dtype)
    }


def _first(value: Any, rows: int) -> Any:
    if value is None:
        return None

    def first(part: Any) -> Any:
        if isinstance(part, tf.SparseTensor):
            return batches.part_of(part, 0, rows)
        return part[:rows] if len(getattr(part, "shape", ())) else part

    return tf.nest.map_structure(first, value)


def _rows(x: Any) -> int:
    for part in keras.tree.flatten(x):
        if len(getattr(part, "shape", ())):
            return int(part.shape[0])
    return 0
