"""A custom loop as facts: its model, its loss where Keras computes it, which gradients are missing, what broadcasts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras

from oomph.preflight.facts.data import BATCH, Data
from oomph.preflight.facts.model import Model, Output
from oomph.preflight.facts.training import Training
from oomph.preflight.facts.trial import Gradient, Trial
from oomph.preflight.live.fit_facts import fit_facts
from oomph.preflight.live.layer_facts import is_functional, layers_of
from oomph.preflight.live.model_facts import optimizer_facts
from oomph.preflight.live.output_facts import loss_facts, made_by
from oomph.reach.request import LOOP
from oomph.resume.loop.loss_calls import LossCall

_DIFFERENCES = ("Sub", "SquaredDifference")


def loop_facts(
    model: Any,
    given: Mapping[str, Any],
    place: str,
    optimizer: Any,
    calls: tuple[LossCall, ...] = (),
    graph: Any = None,
) -> Training:
    """The facts of a custom loop at the first step of its optimizer.

    Args:
        model: the model whose weights it updates.
        given: `grads` and `trainable_variables`, as `optimizer.apply` got them.
        place: the file and line.
        optimizer: the loop's optimizer.
        calls: earlier calls of loss objects.
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
        if getattr(variable, "trainable", True)  # `model.variables` holds seeds and moving statistics too
    )
    data = Data(BATCH)
    trial = Trial(0, gradients=found, broadcasts=_broadcast(graph))
    return Training(facts, data, fit_facts(LOOP, {}, place, data), trial=trial)


def _outputs(model: Any, calls: tuple[LossCall, ...]) -> list[Output]:
    """The output with its loss, of a model with one output that one loss object compares."""
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
    """A difference of a vector and a column, which becomes a square: "(20,) - (20, 1)"; empty if there is none."""
    for operation in () if graph is None else graph.get_operations():
        if operation.type not in _DIFFERENCES:
            continue
        shapes = [tensor.shape for tensor in operation.inputs]
        if any(shape.rank is None for shape in shapes):
            continue
        vector, column = sorted(([*shape] for shape in shapes), key=len)
        if _are_of_one_tensor(*operation.inputs):
            continue  # all pairs, on purpose
        if len(vector) == 1 and len(column) == 2 and column[1] == 1 and vector[0] == column[0] != 1:
            return f"{_in_words(shapes[0])} - {_in_words(shapes[1])}"
    return ""


def _are_of_one_tensor(first: Any, second: Any) -> bool:
    """True if one tensor is the other tensor in another shape."""
    sources = [{tensor.ref(), *(each.ref() for each in tensor.op.inputs[:1])} for tensor in (first, second)]
    return bool(sources[0] & sources[1])


def _in_words(shape: Any) -> str:
    sizes = ["n" if size is None else str(size) for size in shape]
    return f"({sizes[0]},)" if len(sizes) == 1 else f"({', '.join(sizes)})"
