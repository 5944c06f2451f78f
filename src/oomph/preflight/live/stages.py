"""Turns the stages of a tf.data pipeline into facts, source first. Finds maps that move images without their masks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf

from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW
from oomph.keras_bridge.pipelines.datasets import chain, functions_of, kind_of, static
from oomph.preflight.facts.data import Stage
from oomph.preflight.live.frozen_random import drawn_in
from oomph.script.cells import site_at
from oomph.script.script_line import is_of_script

_PYTHON = ("PyFunc", "EagerPyFunc", "PyFuncStateless")
_RANDOM = re.compile(r"Random|RngRead|Multinomial")
_MOVES = ("ReverseV2", "ImageProjectiveTransformV2", "ImageProjectiveTransformV3", "Roll", "CropAndResize")


def stages_of(dataset: Any) -> tuple[Stage, ...]:
    """Return the chain of stages. A stage with several inputs, such as zip, comes after all of them."""
    return tuple(_stage(each) for each in chain(dataset))


def are_shuffled_apart(dataset: Any) -> bool:
    """True if a zip has inputs that were shuffled separately."""
    for each in chain(dataset):
        if kind_of(each) == "zip":
            orders = [_order(before) for before in TENSORFLOW.dataset_inputs.call(each)]
            shuffled = [order for order in orders if order]
            if shuffled and len(orders) > 1 and (len(set(orders)) > 1 or None in shuffled[0]):
                return True
    return False


def _order(dataset: Any) -> tuple[tuple[int, int, int] | None, ...]:
    """Return the buffer size and seeds of each shuffle in a pipeline, or None for a shuffle without a seed."""
    found = []
    for each in chain(dataset):
        if kind_of(each) == "shuffle":
            seeds = [static(TENSORFLOW.shuffle_seed.get(each)), static(TENSORFLOW.shuffle_seed2.get(each))]
            size = static(TENSORFLOW.buffer_size.get(each))
            has_seed = size is not None and None not in seeds and any(seeds)
            found.append((size or 0, seeds[0] or 0, seeds[1] or 0) if has_seed else None)
    return tuple(found)


def _stage(dataset: Any) -> Stage:
    kind = kind_of(dataset)
    nodes = {node for function in functions_of(dataset) for node in _operations(function)}
    function, place = _written(dataset)
    return Stage(
        kind=kind,
        place=place,
        function=function,
        buffer=static(TENSORFLOW.buffer_size.get(dataset)),
        batch=static(TENSORFLOW.dataset_batch_size.get(dataset)),
        count=static(TENSORFLOW.dataset_count.get(dataset)),
        is_parallel="Parallel" in type(dataset).__name__ or TENSORFLOW.parallel_calls.get(dataset) is not None,
        frozen_random=next(filter(None, map(drawn_in, _python_functions(dataset))), ""),
        moves_alone=kind == "map" and moves_inputs_alone(dataset),
        is_random=any(_RANDOM.search(name) for name in nodes),
        reshuffles=TENSORFLOW.reshuffles.get(dataset) if kind == "shuffle" else None,
        is_python=any(name in _PYTHON for name in nodes),
        elements=_cardinality(dataset),
        inputs=len(TENSORFLOW.dataset_inputs.call(dataset)) if TENSORFLOW.dataset_inputs.on(dataset) else 0,
        identity=id(dataset),
    )


def _cardinality(dataset: Any) -> int | None:
    """Return the number of elements: -1 if endless, None if unknown."""
    try:
        found = int(dataset.cardinality())
    except Exception:  # a distributed dataset has no cardinality
        return None
    return None if found == tf.data.UNKNOWN_CARDINALITY else found


def _operations(function: Any) -> Iterator[str]:
    graph = getattr(function, "graph", None)
    if graph is None:
        return
    definition = graph.as_graph_def()
    for node in definition.node:
        yield node.op
    for inner in definition.library.function:
        for node in inner.node_def:
            yield node.op


def _python_functions(dataset: Any) -> Iterator[Any]:
    for wrapper in TENSORFLOW.dataset_functions.call(dataset) if TENSORFLOW.dataset_functions.on(dataset) else ():
        yield TENSORFLOW.structured_function.get(wrapper)


def _written(dataset: Any) -> tuple[str, str]:
    """Return the name, file and line of the user-written function that this stage applies; empty if there is none."""
    for python in _python_functions(dataset):
        code = getattr(python, "__code__", None)
        if code is not None and is_of_script(code.co_filename):
            return str(code.co_name), site_at(code.co_filename, code.co_firstlineno)
    return "", ""


def moves_inputs_alone(dataset: Any) -> bool:
    """True if the map randomly transforms the first input, but not a target of the same height and width."""
    specification = dataset.element_spec
    graphs = [
        getattr(getattr(each, "function", None), "graph", None) for each in TENSORFLOW.dataset_functions.call(dataset)
    ]
    if not isinstance(specification, tuple) or len(specification) < 2 or len(graphs) != 1 or graphs[0] is None:
        return False
    inputs, targets = (tf.nest.flatten(part) for part in specification[:2])
    if not inputs or not targets or not _are_of_one_size(inputs[0], targets[0]):
        return False
    outputs, bodies = graphs[0].outputs, _bodies(graphs[0])
    ours = set(_operations_behind(outputs[0], bodies))
    theirs = set(_operations_behind(outputs[len(inputs)], bodies))
    return _draws(ours) and not _draws(theirs) and bool(ours & set(_MOVES))


def _draws(operations: set[str]) -> bool:
    return any(_RANDOM.search(each) for each in operations)


def _are_of_one_size(image: Any, mask: Any) -> bool:
    shapes = [getattr(each, "shape", None) for each in (image, mask)]
    if any(shape is None or shape.rank is None or shape.rank < 2 for shape in shapes):
        return False
    first, second = ([*shape] for shape in shapes if shape is not None)
    at = len(first) - 3 if len(first) > 2 else 0
    size = first[at : at + 2]
    return None not in size and second[at : at + 2] == size and min(size) > 1


def _bodies(graph: Any) -> Mapping[str, Any]:
    return {function.signature.name: function for function in graph.as_graph_def().library.function}


def _operations_behind(tensor: Any, bodies: Mapping[str, Any]) -> Iterator[str]:
    """Yield the types of all operations that a tensor depends on, including those inside functions."""
    waiting, seen = [tensor.op], set()
    while waiting:
        operation = waiting.pop()
        if operation.name in seen:
            continue
        seen.add(operation.name)
        yield operation.type
        yield from _inside(operation.node_def, bodies, set())
        waiting += [each.op for each in operation.inputs]


def _inside(node: Any, bodies: Mapping[str, Any], seen: set[str]) -> Iterator[str]:
    for attribute in node.attr.values():
        names = [attribute.func.name] if attribute.HasField("func") else [each.name for each in attribute.list.func]
        for name in names:
            if name in bodies and name not in seen:
                seen.add(name)
                for inner in bodies[name].node_def:
                    yield inner.op
                    yield from _inside(inner, bodies, seen)
