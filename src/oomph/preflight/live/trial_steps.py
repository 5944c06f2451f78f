"""Tries steps on a few samples and batches of other sizes, to find runtime problems. Changes the model."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from oomph.keras_bridge.batch import batches
from oomph.keras_bridge.names.keras3 import KERAS
from oomph.preflight.facts.data import ARRAYS, Data
from oomph.preflight.facts.model import Output
from oomph.preflight.facts.training import OddBatch, Trial, TrialPrediction
from oomph.preflight.live.plain_values import float_of, is_of_keras
from oomph.preflight.live.probes import first_gradients, loss_broadcasts, loss_orders, reads_ahead
from oomph.terminal.wrapping import shortened

_SAMPLES, _STEPS, _SECONDS = 32, 6, 4.0
_SAME = 1e-6
"""Outputs whose spread is a smaller fraction of the largest value than this are also compared in training mode."""
_ROUNDING_SHARE = 1e-7
_MEMORY = ("ResourceExhaustedError", "MemoryError")
_MOST_CHARACTERS, _MOST_NUMBERS = 600, 50_000_000
_COLOURS = re.compile("\x1b\\[[0-9;]*m")
_AROUND = (
    "Exception encountered when calling",
    "Graph execution error",
    "Detected at node",
    'File "',
    "[[{{node",
    "Stack trace for op",
    "[Op:",
)


def try_steps(model: Any, batch: Any, outputs: Sequence[Output], specification: Any = None) -> Trial:
    """Observe a compiled model's outputs and gradients for a few samples, and train on them for a few steps.

    Args:
        model: the model.
        batch: a batch, as fit passes it to `train_step`.
        outputs: the facts about the model's outputs.
        specification: the element_spec of the dataset, if there is one. Its None dimensions stay unknown while the step
                is traced, as they do in fit.
    """
    keras.random.uniform(())  # Keras' own seed: a failing trace would create it without a value
    trial = _trial(model, first_samples(batch, _SAMPLES), outputs, specification)
    is_cut = rows_of(keras.utils.unpack_x_y_sample_weight(batch)[0]) > _SAMPLES
    if trial.failed and is_cut and trial.failed_kind not in _MEMORY:
        model.train_function = None  # the optimizer may create its variables only in the first trace
        return _trial(model, batch, outputs, specification)  # a model may be written for a single batch size
    return trial


def _trial(model: Any, batch: Any, outputs: Sequence[Output], specification: Any) -> Trial:
    output_names = [output.name for output in outputs]
    x, y, weight = keras.utils.unpack_x_y_sample_weight(batch)
    rows = rows_of(x)
    before = _finite(model)
    before_steps = list(_predictions(model, x, output_names))
    orders = tuple(loss_orders(model, outputs, y))
    broadcasts = loss_broadcasts(model, outputs, x, y)
    ahead = reads_ahead(model, x, y)
    gradients, seen, added = first_gradients(model, x, y, weight)
    weights = _digests(model)
    losses, failed = _train(model, batch, specification)
    after = {each.output: each.spread for each in _predictions(model, x, output_names)} if not failed[0] else {}
    predictions = tuple(replace(each, spread_after=after.get(each.output)) for each in before_steps)
    return Trial(
        samples=rows,
        failed=failed[1],
        failed_kind=failed[0],
        losses=tuple(losses),
        predictions=predictions,
        gradients=tuple(gradients),
        activities=tuple(seen.activities),
        ranges=tuple(seen.ranges),
        orders=orders,
        broadcasts=broadcasts,
        reads_ahead=ahead,
        unchanged=weights is not None and bool(losses) and _digests(model) == weights,
        not_reset=tuple(_not_reset(model)) if not failed[0] else (),
        not_finite_after=tuple(
            name for name, finite in _finite(model).items() if not finite and before.get(name, True)
        ),
        differs_in_training=any(map(_is_same, predictions)) and differ_in_training(model, x),
        added_loss=added,
    )


def _is_same(prediction: TrialPrediction) -> bool:
    """True if an output hardly depends on the sample, even after the steps."""
    largest = max(abs(prediction.minimum or 0), abs(prediction.maximum or 0), 1e-12)
    spreads = (prediction.spread, prediction.spread_after)
    return all(spread is not None and spread <= _SAME * largest for spread in spreads)


def _digests(model: Any) -> list[int] | None:
    """Return a hash of each trainable weight, or None if there are none or too many to hash quickly."""
    variables = list(model.trainable_variables)
    if not variables or sum(int(np.prod(variable.shape)) for variable in variables) > _MOST_NUMBERS:
        return None
    return [hash(np.asarray(variable).tobytes()) for variable in variables]


def _own_metrics(model: Any) -> Iterator[Any]:
    """Yield the custom metrics."""
    for metric in model.metrics:
        inner = metric.metrics if type(metric).__name__ == "CompileMetrics" else [metric]
        yield from (each for each in inner if not is_of_keras(type(each)))


def _values(metric: Any) -> list[Any]:
    return [np.array(variable) for variable in metric.variables]


def _not_reset(model: Any) -> Iterator[str]:
    """Yield the names of custom metrics that steps change but a reset does not."""
    for metric in _own_metrics(model):
        before = _values(metric)
        metric.reset_state()
        same = all(np.array_equal(was, now) for was, now in zip(before, _values(metric), strict=True))
        if same and any(np.any(value != 0) for value in before):
            yield str(metric.name)


def _train(model: Any, batch: Any, specification: Any) -> tuple[list[float], tuple[str, str]]:
    """Return the losses of a few steps on one batch, as in fit, and the error of the step that failed, if any."""
    losses: list[float] = []
    until = time.monotonic() + _SECONDS
    try:
        function = _train_function(model, specification)
        while len(losses) < _STEPS and (not losses or time.monotonic() < until):
            model.reset_metrics()
            losses.append(_loss_in(function(batch)))
    except Exception as error:  # errors from the user's model and data are what we are looking for
        return losses, (type(error).__name__, decisive(str(error)))
    return losses, ("", "")


def _train_function(model: Any, specification: Any = None) -> Callable[[Any], Any]:
    """Return a function that trains on one batch, in the form that fit passes to `train_step`, and returns the logs."""
    unknown = [_shape_if_open(part) for part in tf.nest.flatten(specification)]
    model.make_train_function()

    def step(batch: Any) -> Any:
        dataset = tf.data.Dataset.from_tensors(batch).repeat()
        if any(shape is not None for shape in unknown):
            dataset = dataset.map(lambda *parts: _without_shapes(parts if len(parts) > 1 else parts[0], unknown))
        if model.distribute_strategy.num_replicas_in_sync > 1:
            dataset = model.distribute_strategy.experimental_distribute_dataset(dataset)
        return model.train_function(iter(dataset))

    return step


def _shape_if_open(part: Any) -> tf.TensorShape | None:
    """Return the declared shape of a part of the data if any of its dimensions is unknown, or None otherwise."""
    if not isinstance(part, tf.TensorSpec) or part.shape.is_fully_defined():
        return None
    return part.shape


def _without_shapes(parts: Any, unknown: Sequence[tf.TensorShape | None]) -> Any:
    """Return the same tensors, with no more static shape information than the data declares."""
    hidden = [
        part if shape is None else tf.compat.v1.placeholder_with_default(part, shape)
        for part, shape in zip(tf.nest.flatten(parts), unknown, strict=True)
    ]
    return tf.nest.pack_sequence_as(parts, hidden)


def decisive(text: str) -> str:
    """Return an error's own message, without the trace that TensorFlow and Keras wrap around it."""
    lines = [line.strip() for line in _COLOURS.sub("", text).splitlines() if line.strip()]
    kept = [line for line in lines if not line.startswith(_AROUND)]
    return shortened(" ".join(kept), _MOST_CHARACTERS)


def _loss_in(logs: Any) -> float:
    value = logs.get("loss", next(iter(logs.values()), np.nan)) if isinstance(logs, Mapping) else logs
    found = float_of(np.mean(value))
    return np.nan if found is None else found


def _predictions(model: Any, x: Any, names: Sequence[str]) -> Iterator[TrialPrediction]:
    try:
        outputs = keras.tree.flatten(model(x, training=False))
    except Exception:  # the step itself will report why
        return
    for index, output in enumerate(outputs):
        name = names[index] if index < len(names) else f"output_{index + 1}"
        try:
            array = np.asarray(output, np.float64)
        except Exception:  # not numbers
            continue
        yield _prediction(name, array)


def _prediction(name: str, array: Any) -> TrialPrediction:
    if not array.size:
        return TrialPrediction(name, array.shape)
    is_finite = bool(np.isfinite(array).all())
    sums = array.sum(axis=-1) if array.ndim > 1 else np.zeros(1)
    return TrialPrediction(
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


def _finite(model: Any) -> dict[str, bool]:
    return {
        variable.path: bool(np.isfinite(np.asarray(variable, np.float32)).all())
        for variable in model.weights
        if "float" in str(variable.dtype)
    }


def first_samples(value: Any, rows: int) -> Any:
    """Return the first samples of each part of a batch."""
    if value is None:
        return None

    def first(part: Any) -> Any:
        if isinstance(part, tf.SparseTensor):
            return batches.part_of(part, 0, rows)
        return part[:rows] if len(getattr(part, "shape", ())) else part

    return tf.nest.map_structure(first, value)


def rows_of(x: Any) -> int:
    """Return the number of samples in an input."""
    for part in keras.tree.flatten(x):
        if len(getattr(part, "shape", ())):
            return int(part.shape[0])
    return 0


def differ_in_training(model: Any, x: Any) -> bool:
    """True if the outputs of a model with trainable BatchNormalization differ between samples in training mode.

    Untrained moving statistics do not scale up small values, so in inference mode the input may vanish after many
    layers; in training mode each layer restores a standard deviation of 1. Differences caused by dropout do not count:
    it stays off.
    """
    layers = KERAS.flatten_layers.of(model)(include_self=False)
    if not any(isinstance(layer, keras.layers.BatchNormalization) and layer.trainable for layer in layers):
        return False
    try:
        with _without_chance(model):
            outputs = keras.tree.flatten(model(x, training=True))
        return any(_differs(np.asarray(output, np.float64)) for output in outputs)
    except Exception:  # the step itself will report why
        return False


def _differs(rows: Any) -> bool:
    spread = rows.reshape(rows.shape[0], -1).std(axis=0).max()
    return bool(spread > _ROUNDING_SHARE * max(float(np.abs(rows).max()), 1e-12))


@contextmanager
def _without_chance(model: Any) -> Iterator[None]:
    """Make layers that draw random numbers behave as in inference within the block."""
    changed = [layer for layer in KERAS.flatten_layers.of(model)(include_self=False) if _draws_random(layer)]
    for layer in changed:

        def call(*args: Any, _original: Any = layer.call, **kwargs: Any) -> Any:
            return _original(*args, **{**kwargs, "training": False} if "training" in kwargs else kwargs)

        object.__setattr__(layer, "call", call)
    try:
        yield
    finally:
        for layer in changed:
            object.__delattr__(layer, "call")


def _draws_random(layer: Any) -> bool:
    return getattr(layer, "seed_generator", None) is not None or getattr(layer, "generator", None) is not None


def odd_batches(model: Any, batch: Any, data: Data, validation: Data | None) -> Iterator[OddBatch]:
    """Yield the batches that fail although a full batch works.

    Tried only for models that may depend on one batch size: those with state, a fixed size, or user code.

    Args:
        model: the model, which has already run a step on a batch.
        batch: a full batch.
        data: the training data.
        validation: the validation data.
    """
    if not _may_be_fixed(model) or tf.distribute.has_strategy():
        return
    whole = rows_of(keras.utils.unpack_x_y_sample_weight(batch)[0])
    if _error_with(model, batch) is not None:
        return
    for each in (data, *([] if validation is None else [validation])):
        for size in sorted(_batch_sizes(each)):
            if 0 < size < whole:
                error = _error_with(model, first_samples(batch, size))
                if error is not None:
                    yield OddBatch(size, error, each is not data)
                    break


def _may_be_fixed(model: Any) -> bool:
    layers = list(KERAS.flatten_layers.of(model)(include_self=True, recursive=True))
    inputs = [tensor.shape for tensor in keras.tree.flatten(getattr(model, "inputs", None) or [])]
    loss = getattr(model, "loss", None)
    return (
        any(getattr(layer, "stateful", False) is True or not is_of_keras(type(layer)) for layer in layers)
        or any(shape and shape[0] is not None for shape in inputs)
        or (callable(loss) and not is_of_keras(loss) and not is_of_keras(type(loss)))
    )


def _batch_sizes(data: Data) -> set[int]:
    """Return the known batch sizes of the data."""
    if data.kind == ARRAYS:
        rest = data.samples % data.batch if data.samples and data.batch else 0
        return {rest, data.batch or 0}
    return {shape[0] or 0 for part in data.of("x") for shape in part.shapes if shape}


def _error_with(model: Any, batch: Any) -> str | None:
    """Return the error that the model or its loss raises for a batch, or None if both succeed."""
    x, y, weight = keras.utils.unpack_x_y_sample_weight(batch)
    try:
        outputs = model(x, training=False)
        if type(model).train_step is KERAS.trainer.value().train_step and y is not None:
            model.compute_loss(x=x, y=y, y_pred=outputs, sample_weight=weight, training=False)
    except Exception as error:
        return None if type(error).__name__ in _MEMORY else f"{type(error).__name__}: {decisive(str(error))}"
    return None
