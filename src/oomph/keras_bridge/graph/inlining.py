"""Copies a traced function into the graph that is being traced, operation by operation, instead of calling it.

Keras' own graph of a step is flat. TensorFlow's graph optimizer inlines a call, but adds control dependencies around it
that prevent rewrites of the flat graph. Sums and products are then computed in a different order, and the last bits
differ.

Source: `InlineFunctionBody` in tensorflow/core/common_runtime/inline_function_utils.cc, which ties every operation
without an input to a control node; tensorflow/core/grappler/optimizers/arithmetic_optimizer.cc.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW


def inlined(concrete: Any, definition: Any = None) -> Callable[..., Any]:
    """A function with the same arguments that copies the operations of `concrete` into the current graph.

    Args:
        concrete: a concrete function that takes a nest of tensors.
        definition: a GraphDef to copy instead, whose operations have the same names.
    """
    traced = concrete.graph
    definition = definition or traced.as_graph_def(add_shapes=True)
    count = len(traced.inputs) - len(traced.internal_captures)
    arguments, captures = traced.inputs[:count], traced.inputs[count:]
    runs = [operation.name for operation in traced.control_outputs]

    def copied(*values: Any) -> Any:
        graph = TENSORFLOW.default_graph.value()()
        given = [leaf for leaf in tf.nest.flatten(values, expand_composites=True) if leaf is not None]
        fed = {a.name: value for a, value in zip(arguments, given, strict=True)}
        fed |= {c.name: graph.capture(outer) for c, outer in zip(captures, concrete.captured_inputs, strict=True)}
        wanted = [tensor.name for tensor in traced.outputs]
        found = TENSORFLOW.import_graph_def.value()(
            definition, input_map=fed, return_elements=[*wanted, *runs], name=""
        )
        results, done = found[: len(wanted)], found[len(wanted) :]
        with tf.control_dependencies(done):
            results = [tf.identity(tensor) for tensor in results]
        return _packed(concrete, results)

    return copied


def _packed(concrete: Any, results: list[Any]) -> Any:
    """The tensors in the structure that the function returned."""
    leaves = iter(results)
    flat = tf.nest.flatten(concrete.structured_outputs, expand_composites=True)
    filled = [next(leaves) if isinstance(leaf, (tf.Tensor, tf.TypeSpec)) else leaf for leaf in flat]
    return tf.nest.pack_sequence_as(concrete.structured_outputs, filled, expand_composites=True)
