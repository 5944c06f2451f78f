"""Leaves the script's strategy scope: oomph's own work is done outside it.

Within `strategy.scope()`, and after `tf.distribute.experimental_set_strategy`, every variable that is created becomes
one of all replicas, and the handle of a mirrored variable cannot be read. Guides call `fit` there. What a strategy runs
does not depend on the scope that it is called from: `strategy.run` enters its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import tensorflow as tf

from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW


@contextmanager
def outside_strategy_scope() -> Iterator[None]:
    """Within the block, this thread is in no strategy's scope. The device that the scope has set remains set."""
    if not tf.distribute.has_strategy() or not tf.distribute.in_cross_replica_context():
        yield
        return
    graph = TENSORFLOW.default_graph.value()()
    stacks = TENSORFLOW.strategy_stack, TENSORFLOW.variable_creators
    before = [stack.of(graph) for stack in stacks]
    for stack in stacks:
        stack.put(graph, [])
    try:
        yield
    finally:
        for stack, entries in zip(stacks, before, strict=True):
            stack.put(graph, entries)
