"""Turns the compiled model into facts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import keras

from oomph.keras_bridge.names.keras3 import KERAS
from oomph.preflight.facts.model import Input, Model, OptimizerFacts
from oomph.preflight.live.layer_facts import is_functional, layers_of, outputs_of, shape_of
from oomph.preflight.live.plain_values import float_of, is_of_keras, settings_of


def model_facts(model: Any, steps: int | None = None) -> Model:
    """Return the facts about a compiled model; `steps`, the fit's total, determines the last learning rate."""
    trainer = KERAS.trainer.value()
    return Model(
        kind=type(model).__name__,
        layers=layers_of(model),
        outputs=outputs_of(model),
        inputs=_inputs(model),
        input_keys=_input_keys(model),
        optimizer=optimizer_facts(model.optimizer, steps),
        own_train_step=type(model).train_step is not trainer.train_step,
        own_call=not is_of_keras(type(model)) and "call" in vars(type(model)),
        run_eagerly=bool(getattr(model, "run_eagerly", False)),
        pretrained=_pretrained(model),
        has_added_losses=type(model).compute_loss is not trainer.compute_loss or bool(_added(model)),
        operations=operations_before_weights(model),
        logged=tuple(str(each.name) for each in model.metrics if type(each).__name__ != "CompileMetrics"),
    )


def optimizer_facts(optimizer: Any, steps: int | None = None) -> OptimizerFacts:
    """Return the facts about an optimizer, or about its inner optimizer if it scales the loss."""
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    given = KERAS.learning_rate.get(inner)
    is_schedule = isinstance(given, keras.optimizers.schedules.LearningRateSchedule)
    rate = getattr(inner, "learning_rate", None)
    return OptimizerFacts(
        kind=type(inner).__name__,
        learning_rate=_at(given, 0) if is_schedule else float_of(rate),
        schedule=type(given).__name__ if is_schedule else "",
        rates=_rates(given, steps) if is_schedule and steps else (),
        settings=settings_of(inner),
        scales_loss=inner is not optimizer,
    )


def _at(schedule: Any, step: int) -> float | None:
    try:
        return float_of(schedule(step))
    except Exception:  # a user-defined schedule may need a graph
        return None


def _rates(schedule: Any, steps: int) -> tuple[float, ...]:
    found = [_at(schedule, steps * quarter // 4) for quarter in range(5)]
    return tuple(rate for rate in found if rate is not None) if None not in found else ()


def _inputs(model: Any) -> tuple[Input, ...]:
    if not is_functional(model):
        return ()
    found = []
    for tensor in keras.tree.flatten(model.inputs):
        shape = shape_of(tensor)
        if shape is None:
            return ()
        optional = bool(getattr(getattr(KERAS.history_of_tensor.get(tensor), "operation", None), "optional", False))
        found.append(Input(str(tensor.name), shape, str(tensor.dtype), optional))
    return tuple(found)


def _input_keys(model: Any) -> tuple[str, ...]:
    structure = KERAS.inputs_structure.get(model)
    return tuple(sorted(str(key) for key in structure)) if isinstance(structure, Mapping) else ()


def _pretrained(model: Any) -> str:
    """Return the name of the keras.applications model that this model is or contains as a layer; empty if none."""
    known = {name.lower() for name in dir(keras.applications) if name[0].isupper()}
    names = [str(each.name).lower() for each in (model, *getattr(model, "layers", ())) if hasattr(each, "layers")]
    plain = [name.replace("_", "").replace("-", "") for name in names]  # some end in a width: "mobilenetv2_0.35_96"
    return max((each for each in known for name in plain if name.startswith(each)), key=len, default="")


def _added(model: Any) -> list[Any]:
    try:
        return list(model.losses)
    except Exception:  # a layer that is not built, or a custom loss that fails
        return []


def operations_before_weights(model: Any) -> tuple[str, ...]:
    """Return the non-layer operations that a graph applies to its inputs before any weights, as in `inputs / 255.0`.

    Each kind of operation is listed once, including those in nested models. The result is empty for a model without a
    graph.
    """
    return tuple(dict.fromkeys(_bare_operations(model)))


def _bare_operations(model: Any) -> Iterator[str]:
    if not is_functional(model):
        return
    operations = getattr(model, "operations", None)
    yield from _operations_of_row(model.layers) if operations is None else _operations_of_graph(model, operations)


def _operations_of_row(layers: list[Any]) -> Iterator[str]:
    """Yield the operations before any weights in a Sequential model, which contains only layers and models."""
    for layer in layers:
        yield from _bare_operations(layer)
        if layer.weights:
            return


def _operations_of_graph(model: Any, operations: list[Any]) -> Iterator[str]:
    """Yield the operations before any weights in a graph; `operations` lists each one after its inputs."""
    without_weights = {id(tensor) for tensor in keras.tree.flatten(model.inputs)}
    for operation in operations:
        calls = [
            call
            for call in KERAS.inbound_nodes.get(operation, ())
            if any(id(tensor) in without_weights for tensor in call.input_tensors)
        ]
        if not calls:
            continue
        if isinstance(operation, keras.layers.Layer):
            yield from _bare_operations(operation)
        else:
            yield type(operation).__name__
        if not getattr(operation, "weights", ()):
            without_weights |= {id(tensor) for call in calls for tensor in call.output_tensors}
