"""Tries a few steps on a few samples, which shows what only running can. This changes the model."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from oomph.keras_bridge.batch import batches
from oomph.preflight.facts.model import Output
from oomph.preflight.facts.trial import Prediction, Trial
from oomph.preflight.live.batch_statistics import differ_in_training
from oomph.preflight.live.first_gradients import first_gradients
from oomph.preflight.live.plain_values import float_of, is_of_keras
from oomph.preflight.live.probes import loss_broadcasts, loss_orders, reads_ahead

_SAMPLES, _STEPS, _SECONDS = 32, 6, 4.0
_SAME = 1e-6
"""Outputs that differ by less than this share of the largest are looked at in training mode too."""
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
    """Look at the outputs and gradients of a compiled model for a few samples, and train on them for a few steps.

    Args:
        model: the model.
        batch: as fit gives it to `train_step`.
        outputs: what is known of its outputs.
        specification: the element_spec of the data, where they have one: what it leaves open is unknown to a step.
    """
    keras.random.uniform(())  # Keras' own seed: a trace that fails would create it, and leave it without a value
    trial = _trial(model, first_samples(batch, _SAMPLES), outputs, specification)
    is_cut = rows_of(keras.utils.unpack_x_y_sample_weight(batch)[0]) > _SAMPLES
    if trial.failed and is_cut and trial.failed_kind not in _MEMORY:
        model.train_function = None  # the optimizer may create its variables in the first trace only
        return _trial(model, batch, outputs, specification)  # a model may be written for batches of one size
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


def _is_same(prediction: Prediction) -> bool:
    """Whether an output hardly depends on the sample, also after the steps."""
    largest = max(abs(prediction.minimum or 0), abs(prediction.maximum or 0), 1e-12)
    spreads = (prediction.spread, prediction.spread_after)
    return all(spread is not None and spread <= _SAME * largest for spread in spreads)


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
        function = _train_function(model, specification)
        while len(losses) < _STEPS and (not losses or time.monotonic() < until):
            model.reset_metrics()
            losses.append(_loss_in(function(batch)))
    except Exception as error:  # what the user's model and data raise is what we look for
        return losses, (type(error).__name__, decisive(str(error)))
    return losses, ("", "")


def _train_function(model: Any, specification: Any = None) -> Callable[[Any], Any]:
    """Trains on one batch, given as fit gives it to `train_step`; returns the logs."""
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
    """The shape that the data declare, if they leave some of it open; else None."""
    if not isinstance(part, tf.TensorSpec) or part.shape.is_fully_defined():
        return None
    return part.shape


def _without_shapes(parts: Any, unknown: Sequence[tf.TensorShape | None]) -> Any:
    """The same tensors; a trace knows no more of their shapes than the data declare."""
    hidden = [
        part if shape is None else tf.compat.v1.placeholder_with_default(part, shape)
        for part, shape in zip(tf.nest.flatten(parts), unknown, strict=True)
    ]
    return tf.nest.pack_sequence_as(parts, hidden)


def decisive(text: str) -> str:
    """An error's own words, without the trace that TensorFlow and Keras put around them."""
    lines = [line.strip() for line in _COLOURS.sub("", text).splitlines() if line.strip()]
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


def _finite(model: Any) -> dict[str, bool]:
    return {
        variable.path: bool(np.isfinite(np.asarray(variable, np.float32)).all())
        for variable in model.weights
        if "float" in str(variable.dtype)
    }


def first_samples(value: Any, rows: int) -> Any:
    """The first samples of each part of a batch."""
    if value is None:
        return None

    def first(part: Any) -> Any:
        if isinstance(part, tf.SparseTensor):
            return batches.part_of(part, 0, rows)
        return part[:rows] if len(getattr(part, "shape", ())) else part

    return tf.nest.map_structure(first, value)


def rows_of(x: Any) -> int:
    """How many samples an input holds."""
    for part in keras.tree.flatten(x):
        if len(getattr(part, "shape", ())):
            return int(part.shape[0])
    return 0
