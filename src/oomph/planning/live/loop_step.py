"""Plans a custom training loop's step from the graph that the script is tracing when oomph stops it.

The trace has just reached the optimizer's update. oomph adds the update, as the script would do next; later parts of
the same step, such as metric updates, are missing from the graph.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from oomph.errors import ExamineError
from oomph.keras_bridge.graph import components
from oomph.keras_bridge.names.keras3 import KERAS
from oomph.planning.live import subject
from oomph.planning.live.engine import Engine
from oomph.planning.live.flattening import flatten
from oomph.planning.live.tracing import Traced, is_update_of, traced_program
from oomph.reach.live.arrival import Reached


def loop_step(reached: Reached) -> tuple[subject.PlannedTraining, Engine, bool]:
    """Return the training to plan, its engine for the script's own batch size, and whether XLA compiles the step.

    Raises:
        ExamineError: the step leaves no graph, or the graph does not contain the batch size.
    """
    _refuse_replicas(reached.fit_arguments["trainable_variables"])
    gradients = [gradient for gradient in reached.fit_arguments["grads"] if gradient is not None]
    graph = _graph_of(gradients)
    reached.tell("reading the step that the script traced")
    batch = _batch_of(graph)
    optimizer, variables = reached.optimizer, reached.fit_arguments["trainable_variables"]
    with graph.as_default():
        optimizer.apply(list(reached.fit_arguments["grads"]), variables)
    traced = Traced(batch, None, flatten(graph))
    program = traced_program([traced], is_update_of([optimizer]))
    assert program is not None, "a trace always yields a program"
    held = _held(graph, optimizer, variables)
    engine = Engine(program, held, None, "graph", tuple(dict.fromkeys(traced.flat.unknown)), batch)
    return _training(reached, variables, batch), engine, reached.jit_compile == "True"


def _refuse_replicas(variables: list[Any]) -> None:
    """Reject a loop whose variables are on several devices.

    Raises:
        ExamineError: the variables are on several devices.
    """
    if any(len(components(variable)) > 1 for variable in variables):
        raise ExamineError("a custom loop with several replicas cannot be planned: plan it with one, or call fit")


def _graph_of(gradients: list[Any]) -> Any:
    first = getattr(gradients[0], "values", gradients[0]) if gradients else None
    if first is None or hasattr(first, "numpy"):
        raise ExamineError(
            "the step of this custom loop runs eagerly, operation by operation, and leaves no graph to plan: "
            "decorate it with @tf.function, or call fit"
        )
    return first.graph


def _batch_of(graph: Any) -> int:
    """Return the most common first dimension of the step's inputs.

    Raises:
        ExamineError: no input has a known first dimension.
    """
    inputs = [tensor for tensor in graph.inputs if tensor.dtype.name not in ("resource", "variant")]
    inputs += [
        tensor for operation in graph.get_operations() if operation.type == "IteratorGetNext"
        for tensor in operation.outputs
    ]  # fmt: skip
    sizes = Counter(tensor.shape[0] for tensor in inputs if tensor.shape.rank)
    if not sizes or sizes.most_common(1)[0][0] is None:
        raise ExamineError(
            "the traced step does not know the batch size: give it batches of a fixed size, for instance with "
            ".batch(n, drop_remainder=True)"
        )
    return int(sizes.most_common(1)[0][0])


def _held(graph: Any, optimizer: Any, variables: list[Any]) -> Any:
    slots = list(optimizer.variables)
    known = {id(KERAS.variable_value.get(variable, variable)) for variable in [*variables, *slots]}
    others = [variable for variable in graph.variables if id(variable) not in known]
    return subject.held(variables, slots, others)


def _training(reached: Reached, variables: list[Any], batch: int) -> subject.PlannedTraining:
    model, optimizer = reached.model, type(reached.optimizer).__name__
    trainable = subject.size_of(variables)
    if model is None:
        return subject.PlannedTraining(f"a custom loop, {optimizer}", frozenset(), trainable, batch)
    words = f"{model.name} in a custom loop, {subject.parameters(model):,} parameters, {optimizer}"
    return subject.PlannedTraining(words, subject.layer_names(model), trainable, batch, subject.policies(model))
