"""Workers: the processes that train one model together under a `tf.distribute.MultiWorkerMirroredStrategy`."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW


def spans_workers(strategy: Any) -> bool:
    """True if some of the strategy's replicas are in other processes, so that a step waits for all of them."""
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return False
    return bool(strategy.num_replicas_in_sync > len(strategy.extended.worker_devices))


def lacks_workers(strategy: Any) -> bool:
    """True if a strategy for several workers has only this one, as in a script that is started without the others."""
    return isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy) and not spans_workers(strategy)


def is_only_supervised(strategy: Any) -> bool:
    """True if variables or steps are on other machines' servers or on TPUs, which oomph neither guards nor saves."""
    return isinstance(strategy, (tf.distribute.ParameterServerStrategy, tf.distribute.TPUStrategy))


def replicas_here(strategy: Any) -> int:
    """Return how many of the strategy's replicas are in this process."""
    return len(strategy.extended.worker_devices) if spans_workers(strategy) else int(strategy.num_replicas_in_sync)


def workers_of(strategy: Any) -> int:
    """Return the number of processes that the strategy trains in."""
    if not spans_workers(strategy):
        return 1
    tasks = strategy.cluster_resolver.cluster_spec().as_dict()
    return sum(len(tasks.get(kind, ())) for kind in ("chief", "worker"))


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


def reduced_together(strategy: Any, operation: str, values: Sequence[Any]) -> list[Any]:
    """Reduce values over all replicas, those of one type together: each operation is a round trip between workers."""
    count = len(strategy.extended.worker_devices)
    own = [list(map(tf.convert_to_tensor, strategy.experimental_local_results(value))) for value in values]
    of_type: dict[tf.DType, list[int]] = defaultdict(list)
    for place, parts in enumerate(own):
        of_type[parts[0].dtype].append(place)
    reduced: dict[int, Any] = {}
    for places in of_type.values():
        rows = [[own[place][replica % len(own[place])] for place in places] for replica in range(count)]
        joined = iter([tf.concat([tf.reshape(part, [-1]) for part in row], axis=0) for row in rows])
        together = strategy.experimental_distribute_values_from_function(lambda _, joined=joined: next(joined))
        pieces = tf.split(strategy.reduce(operation, together, axis=None), [tf.size(part) for part in rows[0]])
        for place, part, piece in zip(places, rows[0], pieces, strict=True):
            reduced[place] = tf.reshape(piece, tf.shape(part))
    return [reduced[place] for place in range(len(values))]


def with_saved_iterators(strategy: Any, dataset: Any) -> Any:
    """Return a distributed dataset with iterators that TensorFlow can save if that costs nothing, else the given one.

    TensorFlow's usual ones read ahead onto the devices, and cannot be saved: "GeneratorDataset does not support
    checkpointing". Without reading ahead, a worker has a plain iterator. A CPU needs no copy on the device.

    Source: `_should_use_multi_device_iterator` in tensorflow/python/distribute/input_lib.py
    """
    if not spans_workers(strategy) or TENSORFLOW.input_options.get(dataset, strategy) is not None:
        return dataset
    if [tf.DeviceSpec.from_string(each).device_type for each in strategy.extended.worker_devices] != ["CPU"]:
        return dataset
    one_by_one = tf.distribute.InputReplicationMode.PER_REPLICA
    options = tf.distribute.InputOptions(experimental_fetch_to_device=False, experimental_replication_mode=one_by_one)
    own = copy.copy(dataset)  # a function of the script that takes the usual iterators would not take the others
    TENSORFLOW.input_options.put(own, options)
    return own


def own_iterator(iterator: Any) -> Any:
    """Return the iterator from which a distributed one takes this worker's batches, or else the given iterator.

    The former can be saved, and taking a batch from it involves no other worker.
    """
    is_distributed = isinstance(iterator, tf.distribute.DistributedIterator)
    iterators: Any = TENSORFLOW.iterators_of_workers.get(iterator, ()) if is_distributed else ()
    held = vars(iterators[0]).values() if len(iterators) == 1 else ()
    return next((each for each in held if isinstance(each, tf.data.Iterator)), iterator)


Numbers = dict[int, dict[str, int]]


class Collectives:
    """The numbers of a strategy's collective operations.

    TensorFlow numbers them as they start, in each worker by itself: those with the same number, in all workers, are one
    operation. A function takes as many numbers as it has such operations each time that it is called or its captures
    are read. A worker whose step has failed must therefore go back to the numbers for which the others wait.

    Source: `_next_instance_key` in tensorflow/python/distribute/cross_device_utils.py
    """

    def __init__(self, strategy: Any) -> None:
        self._next: Numbers = TENSORFLOW.collective_numbers.of(TENSORFLOW.collective_keys.of(strategy.extended))

    def numbers(self) -> Numbers:
        """Return the next number of each group and device."""
        return {group: dict(of_device) for group, of_device in self._next.items()}

    def go_back(self, numbers: Numbers) -> None:
        """Continue with these numbers."""
        for group, of_device in numbers.items():
            self._next[group].update(of_device)

    def give_back(self, taken: Numbers) -> None:
        """Continue as if these numbers had not been taken."""
        self.go_back({group: {on: self._next[group][on] - n for on, n in of.items()} for group, of in taken.items()})

    def taken_by(self, concrete: Any) -> Numbers:
        """Return how many numbers a traced function takes from each group and device when it is called."""
        with self.at_rest():
            before = self.numbers()
            _ = concrete.captured_inputs  # each reading takes them
            return {
                group: {device: number - before[group][device] for device, number in of_device.items()}
                for group, of_device in self.numbers().items()
            }

    @contextmanager
    def at_rest(self) -> Iterator[None]:
        """Use up no numbers within the block, which exchanges nothing."""
        before = self.numbers()
        try:
            yield
        finally:
            self.go_back(before)


def collectives_in(graph: Any) -> list[Any]:
    """Return the operations of a traced function that exchange values with other workers, or contain such ones."""
    return [user for number in TENSORFLOW.late_captures.of(graph) for user in number.consumers()]


def collectives_before(graph: Any, variable: tf.Variable) -> list[Any]:
    """Return the collective operations that may start before a traced function has added to the variable."""
    late: set[str] = set()
    handles = {id(inner) for outer, inner in graph.captures if outer is variable.handle}
    for operation in graph.get_operations():
        adds = operation.type == "AssignAddVariableOp" and id(operation.inputs[0]) in handles
        needed = [*(each.op for each in operation.inputs), *operation.control_inputs]
        if adds or any(each.name in late for each in needed):
            late.add(operation.name)
    return [each for each in collectives_in(graph) if each.name not in late]
