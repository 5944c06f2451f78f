"""Collects all known facts about a training run from the live objects passed to fit, or from a custom loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import keras
import tensorflow as tf

from oomph.errors import ExamineError
from oomph.planning.live.readable import readable
from oomph.planning.live.samples import first_batch
from oomph.preflight.facts.data import ARRAYS, BATCH, Data
from oomph.preflight.facts.model import Model, Output
from oomph.preflight.facts.training import Gradient, Training, Trial
from oomph.preflight.live.data_facts import Looked, look_at
from oomph.preflight.live.fit_facts import callbacks_of, fit_facts, saving_facts
from oomph.preflight.live.layer_facts import (
    activation_of,
    is_functional,
    last_layers,
    layer_facts,
    layers_of,
    loss_facts,
    made_by,
    shape_of,
)
from oomph.preflight.live.model_facts import model_facts, optimizer_facts
from oomph.preflight.live.pipeline_changes import INPUT_BOUND, Trainer, changes_that_pay, measure
from oomph.preflight.live.reading import USUAL, Limits
from oomph.preflight.live.trial_steps import decisive, odd_batches, try_steps
from oomph.reach.request import FIT, LOOP, ON_BATCH
from oomph.resume.loop.loss_calls import LossCall

_DIFFERENCES = ("Sub", "SquaredDifference")
_SPLIT = ("x", "y", "sample_weight")


def loop_facts(
    model: Any,
    given: Mapping[str, Any],
    place: str,
    optimizer: Any,
    calls: tuple[LossCall, ...] = (),
    graph: Any = None,
) -> Training:
    """Return the facts about a custom loop at the first step of its optimizer.

    Args:
        model: the model whose weights the loop updates.
        given: `grads` and `trainable_variables`, as passed to `optimizer.apply`.
        place: the file and line of the call.
        optimizer: the loop's optimizer.
        calls: earlier calls to loss objects.
        graph: the graph being traced; None for an eager loop.
    """
    facts = Model(
        type(model).__name__,
        layers_of(model),
        tuple(_outputs(model, calls)),
        optimizer=optimizer_facts(optimizer),
        own_train_step=True,
        swapped_loss=next(
            (loss.kind for call in calls if call.swaps and call.model is model and (loss := loss_facts(call.loss))), ""
        ),
    )
    variables, gradients = list(given.get("trainable_variables") or ()), list(given.get("grads") or ())
    found = tuple(
        Gradient(str(getattr(variable, "path", variable.name)), "", gradient is None)
        for variable, gradient in zip(variables, gradients, strict=False)
        if getattr(variable, "trainable", True)  # `model.variables` also contains seeds and moving statistics
    )
    data = Data(BATCH)
    trial = Trial(0, gradients=found, broadcasts=_broadcast(graph))
    return Training(facts, data, fit_facts(LOOP, {}, place, data), trial=trial)


def _outputs(model: Any, calls: tuple[LossCall, ...]) -> list[Output]:
    """Return the output and its loss if the model has a single output and exactly one loss object uses it."""
    losses = {id(call.loss): call.loss for call in calls if call.model is model and not call.swaps}
    if not is_functional(model) or len(losses) != 1:
        return []
    tensors = keras.tree.flatten(model.outputs)
    if len(tensors) != 1:
        return []
    layer, activation = made_by(tensors[0])
    shape = tuple(tensors[0].shape)
    return [Output("output_1", shape, layer=layer, activation=activation, loss=loss_facts(*losses.values()))]


def _broadcast(graph: Any) -> str:
    """Find a vector and a column whose difference is a square, such as "(20,) - (20, 1)"; empty if there are none."""
    for operation in () if graph is None else graph.get_operations():
        if operation.type not in _DIFFERENCES:
            continue
        shapes = [tensor.shape for tensor in operation.inputs]
        if any(shape.rank is None for shape in shapes):
            continue
        vector, column = sorted(([*shape] for shape in shapes), key=len)
        if _are_of_one_tensor(*operation.inputs):
            continue  # compares all pairs on purpose
        if len(vector) == 1 and len(column) == 2 and column[1] == 1 and vector[0] == column[0] != 1:
            return f"{_in_words(shapes[0])} - {_in_words(shapes[1])}"
    return ""


def _are_of_one_tensor(first: Any, second: Any) -> bool:
    """True if one tensor is the other in a different shape."""
    sources = [{tensor.ref(), *(each.ref() for each in tensor.op.inputs[:1])} for tensor in (first, second)]
    return bool(sources[0] & sources[1])


def _in_words(shape: Any) -> str:
    sizes = ["n" if size is None else str(size) for size in shape]
    return f"({sizes[0]},)" if len(sizes) == 1 else f"({', '.join(sizes)})"


def training_facts(
    model: Any, kind: str, given: Mapping[str, Any], place: str, limits: Limits = USUAL,
    tell: Callable[[str], None] = lambda text: None, optimizer: Any = None, tries: bool = True,
    before_trial: Callable[[Any], None] = lambda batch: None, loss_calls: tuple[LossCall, ...] = (),
    graph: Any = None, ends: bool = True,
) -> Training:  # fmt: skip
    """Return the facts about one training run.

    Args:
        model: the model; compiled, except for a custom loop.
        kind: "fit", "train_on_batch" or "custom loop".
        given: the arguments of the call, keyed by name.
        place: the file and line of the call.
        limits: how much of the data to read.
        tell: shows the user what is currently happening.
        optimizer: a custom loop's optimizer.
        tries: True to try a few steps, which change the model.
        before_trial: called with the first batch before the trial steps.
        loss_calls: the calls to loss objects in a custom loop.
        graph: the graph of a custom loop's traced step.
        ends: True if the process exits afterwards, so that a custom schedule may be called even if it counts its calls.
    """
    if kind == LOOP:
        return loop_facts(model, given, place, optimizer, loss_calls, graph)
    tell("reading a sample of the data")
    first, second = _halves(given)
    rank = _input_rank(model)
    own = replace(limits, epoch=given.get("steps_per_epoch"))
    x, y, weight = (first.get(name) for name in _SPLIT)
    looked = look_at(x, y, weight, given.get("batch_size"), own, rank, tell)
    if kind == ON_BATCH:
        looked = replace(looked, data=_one_batch(looked.data))
    validation = _validation(second, given, replace(limits, epoch=given.get("validation_steps")), rank, tell)
    _build(model, looked)
    _make_slots(model)
    fit = fit_facts(kind, given, place, looked.data, _fixed_rate(model) if ends else None)
    fit = replace(fit, saves=tuple(saving_facts(model, callbacks_of(given), loads=ends)))
    facts = model_facts(model, fit.steps)
    batch, trial = _batch(model, kind, given, looked)
    if tries and batch is not None:
        before_trial(batch)
        tell("trying a few steps on a few samples")
        facts = replace(facts, outputs=_with_layers(facts.outputs, model, batch))
        trial = try_steps(model, batch, facts.outputs, getattr(given.get("x"), "element_spec", None))
        facts = replace(facts, outputs=_with_shapes(facts.outputs, trial))
        if not trial.failed:
            held = None if validation is None else validation.data
            trial = replace(trial, odd_batches=tuple(odd_batches(model, batch, looked.data, held)))
    return Training(facts, looked.data, fit, _compared(validation, looked), trial)


def _fixed_rate(model: Any) -> float | None:
    """Return the learning rate, or None if a schedule sets it at each step."""
    optimizer = optimizer_facts(model.optimizer)
    return None if optimizer.schedule else optimizer.learning_rate


def _batch(model: Any, kind: str, given: Mapping[str, Any], looked: Looked) -> tuple[Any, Trial | None]:
    """Return the first batch as fit would pass it to `train_step`, or None and Keras' error if Keras rejects it."""
    if kind != FIT or looked.data.kind != ARRAYS or not looked.data.samples:
        return looked.batch, None
    try:
        return first_batch(model, given), None
    except ExamineError as error:
        cause = error.__cause__ or error
        return None, Trial(0, failed=decisive(str(cause)), failed_kind=type(cause).__name__)


def with_waiting(training: Training, model: Any, given: Mapping[str, Any], tunes: bool) -> Training:
    """Add the measured wait for data to the facts.

    The wait is measured only if the tf.data pipeline can be read unchanged and the model trains without an error.
    """
    dataset = given.get("x")
    if not isinstance(dataset, tf.data.Dataset) or training.data.failed or readable(dataset).is_changed:
        return training

    trainer = Trainer(model)
    waiting = measure(dataset, training.data, trainer)
    if tunes and waiting is not None and waiting.share >= INPUT_BOUND:
        changes = changes_that_pay(dataset, training.data, trainer, training.fit.epochs)
        waiting = replace(waiting, changes=tuple(changes), tried=True)
    return replace(training, waiting=waiting)


def _halves(given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Return the training data, and the last samples, which `validation_split` sets aside; None without a split."""
    share = given.get("validation_split") or 0.0
    parts = {name: given[name] for name in _SPLIT if given.get(name) is not None}
    arrays = keras.tree.flatten(list(parts.values()))
    if not share or not arrays or not all(getattr(each, "shape", ()) for each in arrays):
        return {name: given.get(name) for name in _SPLIT}, None
    border = int(arrays[0].shape[0] * (1 - share))
    return (
        {name: _rows(part, slice(None, border)) for name, part in parts.items()},
        {name: _rows(part, slice(border, None)) for name, part in parts.items()},
    )


def _rows(part: Any, rows: slice) -> Any:
    """Return the given rows of each array, keeping the structure."""
    return keras.tree.map_structure(lambda each: each.iloc[rows] if hasattr(each, "iloc") else each[rows], part)


def _validation(
    split: Mapping[str, Any] | None,
    given: Mapping[str, Any],
    limits: Limits,
    rank: int | None,
    tell: Callable[[str], None],
) -> Looked | None:
    data = given.get("validation_data")
    if data is None and split is None:
        return None
    if data is None and split is not None:
        x, y, weight = (split.get(name) for name in _SPLIT)
        return look_at(x, y, weight, given.get("batch_size"), limits, rank, tell)
    if isinstance(data, (tuple, list)):
        x, y, weight = (*data, None, None, None)[:3]
        return look_at(x, y, weight, given.get("validation_batch_size") or given.get("batch_size"), limits, rank, tell)
    return look_at(data, limits=limits, input_rank=rank, tell=tell)


def _compared(validation: Looked | None, training: Looked) -> Data | None:
    """Return the validation data, with the share of its samples that also occur in the training data."""
    if validation is None:
        return None
    if not validation.rows or not training.rows:
        return validation.data
    return replace(validation.data, seen_in_training=len(validation.rows & training.rows) / len(validation.rows))


def _one_batch(data: Data) -> Data:
    parts = tuple(
        replace(part, sample=replace(part.sample, is_whole=False)) if part.sample is not None else part
        for part in data.parts
    )
    return replace(data, kind=BATCH, batches=None, samples=None, batch=data.samples, parts=parts)


def _input_rank(model: Any) -> int | None:
    inputs = getattr(model, "inputs", None)
    shape = shape_of(inputs[0]) if inputs else None
    return None if shape is None else len(shape)


def _build(model: Any, looked: Looked) -> None:
    """Create the weights as the first step would. A failure is ignored here: the trial will hit it and report it."""
    if getattr(model, "built", False) or looked.batch is None:
        return
    try:
        model(keras.utils.unpack_x_y_sample_weight(looked.batch)[0], training=False)
    except Exception:  # the user's own layers, or data with a wrong shape
        pass


def _make_slots(model: Any) -> None:
    """Create the optimizer's slots if there are several replicas, as fit does before its first step.

    Slots that are created while a step is traced but not run have no values.
    """
    strategy, optimizer = model.distribute_strategy, model.optimizer
    if strategy.num_replicas_in_sync > 1 and model.built and not optimizer.built:
        with strategy.scope():
            optimizer.build(model.trainable_variables)


def _with_layers(outputs: tuple[Output, ...], model: Any, batch: Any) -> tuple[Output, ...]:
    """Fill in the layers that produce the outputs of a model without a graph."""
    if all(output.layer is not None or output.activation for output in outputs):
        return outputs
    try:
        found = last_layers(model, keras.utils.unpack_x_y_sample_weight(batch)[0])
    except Exception:  # the trial will report why
        return outputs
    if len(found) != len(outputs):
        return outputs
    return tuple(
        output
        if layer is None or output.layer is not None or output.activation
        else replace(output, layer=layer_facts(layer), activation=activation_of(layer))
        for output, layer in zip(outputs, found, strict=True)
    )


def _with_shapes(outputs: tuple[Output, ...], trial: Trial) -> tuple[Output, ...]:
    """Replace unknown output shapes with the shapes that the trial observed."""
    seen = {prediction.output: prediction.shape for prediction in trial.predictions}
    return tuple(
        replace(output, shape=(None, *seen[output.name][1:]))
        if output.shape is None and output.name in seen
        else output
        for output in outputs
    )
