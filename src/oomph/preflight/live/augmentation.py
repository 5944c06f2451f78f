"""Whether a map moves images at random and leaves the masks that belong to them where they were."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf

from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW

_MOVES = ("ReverseV2", "ImageProjectiveTransformV2", "ImageProjectiveTransformV3", "Roll", "CropAndResize")
_RANDOM = re.compile(r"Random|RngRead|Multinomial")


def moves_inputs_alone(dataset: Any) -> bool:
    """Whether the map transforms the first input at random, but not a target of the same height and width."""
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
    ours = set(_operations(outputs[0], bodies))
    theirs = set(_operations(outputs[len(inputs)], bodies))
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


def _operations(tensor: Any, bodies: Mapping[str, Any]) -> Iterator[str]:
    """The types of all operations that a tensor comes from, those within functions included."""
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
