"""Lets Keras' `fit` and `evaluate` work under MultiWorkerMirroredStrategy, which Keras 3.5 to 3.15 cannot do.

Keras fails before its first step. To learn the shapes of a batch, it averages the first one over the workers, which
TensorFlow refuses for a nest of tensors; and it averages the results of a step, which are single numbers, along their
first axis. Each of the two is replaced only if Keras, asked at the beginning of a training, shows the error. Workers
exchange the results of a step together, and those of an epoch, since each exchange is a round trip.

Two more errors of Keras leave workers waiting for one another forever. Keras 3.5 reads from its metrics only what a
worker has counted itself, so that callbacks decide differently in each. And a LossScaleOptimizer skips a step only in
the worker whose gradients overflow.

Source: https://github.com/keras-team/keras/issues/20585
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import tensorflow as tf

from oomph.keras_bridge import models
from oomph.keras_bridge.graph import compiled, tensorflow_variable
from oomph.keras_bridge.names import support
from oomph.keras_bridge.names.keras3 import KERAS
from oomph.keras_bridge.names.row import Feature
from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW
from oomph.keras_bridge.pipelines import datasets
from oomph.keras_bridge.runtime.patching import patch, replaced
from oomph.keras_bridge.workers import numbers_of_all, reduced_together, spans_workers
from oomph.resume.training.fits import Fits

_NUMBERS = {"auto": "MEAN", "mean": "MEAN", "sum": "SUM"}
"""Keras' name for the reduction of results that are single numbers."""
_UNSHARDED = tf.data.experimental.AutoShardPolicy.OFF


def install(fits: Fits) -> None:
    """Ask Keras, each time that a fit or an evaluation begins under several workers, and replace what fails."""
    cls = KERAS.trainer.value()
    if support.lacks(Feature.SEVERAL_WORKERS) or not KERAS.build_before_steps.on(cls):
        return
    original, lengths, known = KERAS.build_before_steps.of(cls), _Lengths(), WeakSet[Any]()
    lengths.keep()

    @functools.wraps(original)
    def build(self: Any, iterator: Any = None, data_batch: Any = None) -> None:
        strategy = self.distribute_strategy
        if not spans_workers(strategy):
            original(self, iterator=iterator, data_batch=data_batch)
            return
        average_numbers(strategy)
        if iterator is not None and iterator not in known:  # Keras keeps that of the validation data
            known.add(iterator)
            lengths.agree(strategy, iterator)
            _compare_orders(fits, strategy, KERAS.distributed_dataset.of(iterator))
        if iterator is None or not _averages_nests(self, original):
            original(self, iterator=iterator, data_batch=data_batch)
        else:
            fits.say_once("this Keras cannot train under MultiWorkerMirroredStrategy; oomph corrects that")
            _build(fits, self, KERAS.distributed_dataset.of(iterator))

    patch(cls, KERAS.build_before_steps.name_on(cls), build)
    patch(cls, "get_metrics_result", _summing_at_once(cls.get_metrics_result))
    _report_metrics_of_all(cls)
    _skip_steps_together()


def _skip_steps_together() -> None:
    """Let a LossScaleOptimizer skip a step in all workers if the gradients of one overflow.

    Each worker looks only at its own gradients, before they are added up. Those of the others would wait in the update
    for the one that has skipped it.
    """
    cls = KERAS.loss_scale_optimizer.value()
    original = cls.check_finite

    @functools.wraps(original)
    def check_finite(self: Any, grads: Any) -> Any:
        finite, context = original(self, grads), tf.distribute.get_replica_context()
        if context is None or not spans_workers(context.strategy):
            return finite
        agreeing = context.all_reduce(tf.distribute.ReduceOp.SUM, tf.cast(finite, tf.int32))
        return tf.equal(agreeing, context.num_replicas_in_sync)

    patch(cls, "check_finite", check_finite)


def _report_metrics_of_all(cls: Any) -> None:
    """Add up what the metrics of the workers have counted in an epoch, if Keras does not do so when it reads them."""
    original = KERAS.logs_of_epoch.get(cls)
    if original is None:
        return  # this version of Keras only queries the metrics

    @functools.wraps(original)
    def logs_of_epoch(self: Any, logs: Any) -> Any:
        strategy = self.distribute_strategy
        if spans_workers(strategy):
            for variable in self.metrics_variables:
                _sum_over_workers(strategy, variable)
        return original(self, logs)

    patch(cls, KERAS.logs_of_epoch.name_on(cls), logs_of_epoch)


def _sum_over_workers(strategy: Any, variable: Any) -> None:
    parts = getattr(variable.value, "values", None)
    if parts is None or variable.value.synchronization == tf.VariableSynchronization.ON_READ:
        return
    of_replica = iter(parts)
    own = strategy.experimental_distribute_values_from_function(lambda _: tf.identity(next(of_replica)))
    variable.assign(strategy.reduce("SUM", own, axis=None))


def _compare_orders(fits: Fits, strategy: Any, distributed: Any) -> None:
    """Warn once if the workers shuffle the samples that they share in different orders."""
    data = TENSORFLOW.original_dataset.get(distributed)
    is_shared = isinstance(data, tf.data.Dataset) and not _is_unsharded(data) and not datasets.reads_records(data)
    if len({*numbers_of_all(strategy, datasets.order_of(data) if is_shared else 0)}) > 1:
        fits.warn_once(
            "each worker shuffles the data in an order of its own: an epoch has some samples twice, and others not at "
            "all. To have them all, call keras.utils.set_random_seed(1) at the top of the script"
        )


def _is_unsharded(data: tf.data.Dataset) -> bool:
    return bool(data.options().experimental_distribute.auto_shard_policy == _UNSHARDED)


def _build(fits: Fits, model: Any, data: Any) -> None:
    """Build the model and its metrics for the shapes that the data states, without taking a batch if possible."""
    batch = data.element_spec
    if not _tells_enough(model, batch):
        fits.say_once(
            "the data does not state its shapes, as tf.ensure_shape does: its first batch is taken twice, first for "
            "them alone, and a worker whose data ends before that of the others may fail"
        )
        batch = next(iter(data))
    models.build_for(model, batch)


def _tells_enough(model: Any, spec: Any) -> bool:
    """True if a spec has the sizes with which layers are built. The number of samples is not among them."""
    shapes = [part.shape for part in tf.nest.flatten(models.on_one_replica(spec)) if hasattr(part, "shape")]
    return all(shape.rank is not None and (model.built or None not in shape[1:].as_list()) for shape in shapes)


def _averages_nests(model: Any, build: Any) -> bool:
    """True if Keras reduces a whole batch at once. Neither a collective runs, nor is anything built."""
    strategy, reduced = model.distribute_strategy, []

    def reduce(reduce_op: Any, value: Any, axis: Any = None) -> Any:
        reduced.append(value)
        return value

    value = strategy.experimental_distribute_values_from_function(lambda _: tf.zeros([1, 1]))
    with (
        replaced(strategy, "reduce", reduce),
        replaced(model, KERAS.symbolic_build.name_on(model), lambda **_: None),
    ):
        build(model, iterator=_OneBatch((value, value)))
    return any(not isinstance(each, tf.distribute.DistributedValues) for each in reduced)


class _OneBatch:
    """An epoch with a single batch, in the forms in which Keras 3.15 and Keras 3.5 read it."""

    def __init__(self, batch: Any) -> None:
        self._batch = batch

    def __iter__(self) -> Iterator[Any]:
        yield 0, 0, iter([self._batch])

    def enumerate_epoch(self) -> Iterator[Any]:
        yield 0, iter([self._batch])


def _averages_along_an_axis(strategy: Any) -> bool:
    """True if Keras reduces a single number along an axis, which it does not have. No collective runs."""
    axes = []

    def reduce(reduce_op: Any, value: Any, axis: Any = None) -> Any:
        axes.append(axis)
        return models.on_one_replica(value)

    with replaced(strategy, "reduce", reduce):
        KERAS.reduce_per_replica.value()(tf.constant(0.0), strategy, reduction="mean")
    return axes != [] and axes != [None]


def average_numbers(strategy: Any) -> None:
    """Let Keras reduce the results of a step over all replicas of all workers, if it fails to."""
    if not spans_workers(strategy) or not _averages_along_an_axis(strategy):
        return
    original = KERAS.reduce_per_replica.value()

    @functools.wraps(original)
    def reduce_per_replica(values: Any, strategy: Any, reduction: str) -> Any:
        if reduction not in _NUMBERS or not spans_workers(strategy):
            return original(values, strategy, reduction)
        reduced = reduced_together(strategy, _NUMBERS[reduction], tf.nest.flatten(values))
        return tf.nest.pack_sequence_as(values, reduced)

    patch(*KERAS.reduce_per_replica.place, reduce_per_replica)


def _summing_at_once(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return Keras' method that computes the results of all metrics, with one exchange for all of them.

    Keras reads each of their variables by a collective operation of its own, which TensorFlow traces anew every time.
    """
    readers: WeakKeyDictionary[Any, tuple[list[Any], Callable[[], list[Any]]]] = WeakKeyDictionary()

    @functools.wraps(original)
    def get_metrics_result(self: Any) -> Any:
        strategy = self.distribute_strategy
        in_step = tf.distribute.has_strategy() and not tf.distribute.in_cross_replica_context()
        if in_step or not tf.executing_eagerly() or not spans_workers(strategy):
            return original(self)
        variables = [each for each in map(tensorflow_variable, self.metrics_variables) if _is_summed(each)]
        known, read = readers.get(self, ([], list))
        if [*map(id, known)] != [*map(id, variables)]:
            read = compiled(functools.partial(reduced_together, strategy, "SUM", variables))
            readers[self] = variables, read
        sums, reduce = dict(zip(map(id, variables), read(), strict=True)), strategy.reduce

        def reduce_what_is_left(reduce_op: Any, value: Any, axis: Any = None) -> Any:
            return sums[id(value)] if id(value) in sums else reduce(reduce_op, value, axis=axis)

        with replaced(strategy, "reduce", reduce_what_is_left):
            return original(self)

    return get_metrics_result


def _is_summed(variable: Any) -> bool:
    """True if each replica has its own value of a variable, and reading it adds them up."""
    is_of_each = getattr(variable, "synchronization", None) == tf.VariableSynchronization.ON_READ
    return bool(is_of_each and variable.aggregation == tf.VariableAggregation.SUM)


class _Lengths:
    """The lengths of epochs on which the workers have agreed.

    An epoch lasts until the data of every worker is exhausted: a worker that stopped earlier would be waited for. One
    that has no more data takes part with an empty batch.
    """

    def __init__(self) -> None:
        self._agreed: WeakKeyDictionary[Any, int | None] = WeakKeyDictionary()
        """Maps Keras' epoch iterators to numbers of batches, or to None where only the data shows its end."""

    def keep(self) -> None:
        """Let Keras' epoch iterators return to the agreed length whenever they are reset. Keras 3.5 never does."""
        cls = KERAS.epochs.value()
        if not KERAS.reset_epochs.on(cls):
            return
        original = KERAS.reset_epochs.of(cls)

        @functools.wraps(original)
        def reset(epochs: Any) -> None:
            original(epochs)
            if epochs in self._agreed:
                epochs._num_batches = self._agreed[epochs]

        patch(cls, KERAS.reset_epochs.name_on(cls), reset)

    def agree(self, strategy: Any, epochs: Any) -> None:
        """Agree with all workers on the length of an epoch, before its first one."""
        if epochs.steps_per_epoch is None:
            counts = numbers_of_all(strategy, _batches_here(strategy, epochs))
            self._agreed[epochs] = epochs._num_batches = max(counts) if min(counts) else None


def _batches_here(strategy: Any, epochs: Any) -> int:
    """Return how many steps this worker's data lasts, or 0 if unknown.

    Each worker takes its share of a batch. If the data is not sharded, every worker goes through all of it.
    """
    data = TENSORFLOW.original_dataset.get(KERAS.distributed_dataset.of(epochs))
    count = int(epochs.num_batches or 0)
    if isinstance(data, tf.data.Dataset) and _is_unsharded(data):
        return int(count * strategy.num_replicas_in_sync // len(strategy.extended.worker_devices))
    return count


def one_by_one(model: Any, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return Keras' function for a step, or one that runs several steps per execution one after another.

    TensorFlow cannot run collective operations within the loop that Keras compiles for them. Keras 3.5 lets Python
    unroll the loop, and makes a single function of all.
    """
    is_unrolled = isinstance(function, tf.types.experimental.PolymorphicFunction)
    if int(model.steps_per_execution) == 1 or is_unrolled or not spans_workers(model.distribute_strategy):
        return function
    return lambda iterator: function(_until_the_end(iterator))


def _until_the_end(iterator: Any) -> Iterator[Any]:
    """Yield the batches. Keras has no result to return, and asks for none, if there is not even one."""
    try:
        yield next(iterator)
    except StopIteration:
        raise tf.errors.OutOfRangeError(None, None, "end of the data") from None
    yield from iterator
