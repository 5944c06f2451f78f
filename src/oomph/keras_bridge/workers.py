"""Workers: the processes that train one model together under a `tf.distribute.MultiWorkerMirroredStrategy`."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def spans_workers(strategy: Any) -> bool:
    """True if some of the strategy's replicas are in other processes, so that a step waits for all of them."""
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return False
    return bool(strategy.num_replicas_in_sync > len(strategy.extended.worker_devices))


def is_only_supervised(strategy: Any) -> bool:
    """True if variables or steps are on other machines' servers or on TPUs, which oomph neither guards nor saves."""
    return isinstance(strategy, (tf.distribute.ParameterServerStrategy, tf.distribute.TPUStrategy))


def name_of(strategy: Any) -> str:
    """Return the name of a strategy's class as users know it."""
    if isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return "MultiWorkerMirroredStrategy"
    return type(strategy).__name__


def beside_the_chief(strategy: Any) -> int | None:
    """Return the number of this worker, or None if it is the chief, which alone keeps what all workers write."""
    if not spans_workers(strategy):
        return None
    resolver = strategy.cluster_resolver
    has_chief = "chief" in resolver.cluster_spec().as_dict()
    is_chief = resolver.task_type == "chief" or (resolver.task_id == 0 and not has_chief)
    return None if is_chief else int(resolver.task_id)


def numbers_of_all(strategy: Any, number: int) -> list[int]:
    """Return the number that each replica's worker passes; every worker must ask at the same point of its training."""
    count = strategy.num_replicas_in_sync

    def at_own_place(context: Any) -> tf.Tensor:
        return number * tf.one_hot(context.replica_id_in_sync_group, count, dtype=tf.int64)

    own = strategy.experimental_distribute_values_from_function(at_own_place)
    return [int(each) for each in strategy.reduce("SUM", own, axis=None)]
