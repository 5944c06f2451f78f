"""Handles a strategy's replicas: splits values by replica, joins them again, and leaves the strategy's scope.

A batch in a `tf.distribute.MirroredStrategy` is a nest of `PerReplica` values. This module converts it to one plain
nest per replica, so that no other code has to deal with `PerReplica`. The default strategy has one replica.

Within `strategy.scope()`, and after `tf.distribute.experimental_set_strategy`, every new variable has a component on
each replica, and the handle of a mirrored variable cannot be read. Guides call `fit` inside the scope. The scope
from which a strategy is called does not affect what it runs, since `strategy.run` enters its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

from oomph.keras_bridge.batch import batches
from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW
from oomph.keras_bridge.workers import Collectives, replicas_here, spans_workers


class Replicas:
    """The replicas of one strategy that are in this process."""

    def __init__(self, strategy: tf.distribute.Strategy) -> None:
        self._strategy = strategy
        self.count = replicas_here(strategy)
        self.is_alone = int(strategy.num_replicas_in_sync) == 1
        """True if there is only one replica, so that nothing is exchanged."""
        self.collectives = Collectives(strategy) if spans_workers(strategy) else None
        """The exchange with other workers, or None if there are none."""

    def local(self, values: Any) -> list[Any]:
        """Split a nest of values for all replicas into one nest per replica."""
        flat = tf.nest.flatten(values)
        if self.count == 1 and not any(isinstance(leaf, tf.distribute.DistributedValues) for leaf in flat):
            return [values]
        leaves = [self._strategy.experimental_local_results(leaf) for leaf in flat]
        columns = [list(leaf) * (self.count // len(leaf)) for leaf in leaves]  # a shared value is listed only once
        return [tf.nest.pack_sequence_as(values, [column[r] for column in columns]) for r in range(self.count)]

    def together(self, nests: list[Any]) -> Any:
        """Combine one nest per replica into a single nest of values for all replicas: the inverse of `local`."""
        if self.count == 1:
            return nests[0]
        own = iter(nests)
        return self._strategy.experimental_distribute_values_from_function(lambda _: next(own))

    def run(self, function: Callable[..., Any], *arguments: list[Any]) -> list[Any]:
        """Run `function` in each replica and return the results. Each of `arguments` has one entry per replica."""
        results = self._strategy.run(function, args=tuple(self.together(argument) for argument in arguments))
        return self.local(results)

    def sizes(self, batch: Any) -> list[int] | None:
        """Return each replica's number of samples in an eager batch, or None if its tensors disagree."""
        sizes = [batches.size_of(own) for own in self.local(batch)]
        return None if None in sizes else sizes  # type: ignore[return-value]

    def size(self, batch: Any) -> int | None:
        """Return the busiest replica's sample count, which must fit on one device, or None if the tensors disagree."""
        sizes = self.sizes(batch)
        return None if sizes is None else max(sizes)


def cuts(sizes: list[int], start: int, part: int) -> list[tuple[int, int]]:
    """Return (begin, end) for each replica, in proportion to the busiest one's `part` samples starting at `start`."""
    most = max(sizes)
    return [(size * start // most, size * (start + part) // most) for size in sizes]


@contextmanager
def outside_strategy_scope() -> Iterator[None]:
    """Within the block, keep this thread outside any strategy's scope. A device set by the scope remains set."""
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
