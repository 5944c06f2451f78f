"""Keras is asked what it does under several workers. Nothing here leaves the process; the workers are pretended."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace

import keras
import pytest
import tensorflow as tf
from keras.src.backend.tensorflow import trainer
from tensorflow.python.distribute.values import PerReplica

from oomph.hooks import several_workers
from oomph.keras_bridge.pipelines import datasets
from oomph.keras_bridge.workers import beside_the_chief, spans_workers


class TwoWorkers(tf.distribute.MultiWorkerMirroredStrategy):
    """A strategy that only says that it has two workers, of which this is one."""

    num_replicas_in_sync = 2
    extended = SimpleNamespace(worker_devices=("/job:worker/task:0/device:CPU:0",), _in_multi_worker_mode=lambda: True)

    def __init__(self, resolver=None) -> None:
        vars(self)["resolver"] = resolver

    @property
    def cluster_resolver(self):
        return self.resolver

    def experimental_distribute_values_from_function(self, value_fn):
        return PerReplica((value_fn(None),))

    def scope(self):
        return nullcontext()

    def reduce(self, reduce_op, value, axis):
        raise AssertionError("a collective operation would run")


def model_of(strategy):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model._distribute_strategy = strategy
    return model


def test_installed_keras_shows_both_errors():
    build = trainer.TensorFlowTrainer._maybe_symbolic_build
    assert several_workers._averages_nests(model_of(TwoWorkers()), build)
    assert several_workers._averages_along_an_axis(TwoWorkers())


def test_corrected_keras_shows_no_error(monkeypatch):
    def build(self, iterator=None, data_batch=None):
        for _, _, batches in iterator:
            data_batch = keras.tree.map_structure(
                lambda value: self.distribute_strategy.reduce("MEAN", value, axis=None), next(batches)
            )
        self._symbolic_build(data_batch=data_batch)

    assert not several_workers._averages_nests(model_of(TwoWorkers()), build)
    monkeypatch.setattr(
        trainer, "reduce_per_replica", lambda values, strategy, reduction: strategy.reduce("MEAN", values, axis=None)
    )
    assert not several_workers._averages_along_an_axis(TwoWorkers())


@pytest.mark.parametrize(
    ("features", "layers", "batches"),
    [
        pytest.param((3,), [keras.layers.Dense], 0, id="stated"),
        pytest.param((None,), [keras.layers.Dense], 1, id="of any size"),
        pytest.param((None,), [lambda units: keras.Input((3,)), keras.layers.Dense], 0, id="stated by the model"),
    ],
)
def test_batch_is_taken_only_to_learn_its_shapes(features, layers, batches):
    said, taken = [], []

    class Data:
        element_spec = (tf.TensorSpec((None, *features)), tf.TensorSpec((None, 1)))

        def __iter__(self):
            taken.append("a batch")
            return iter([(tf.zeros((4, 3)), tf.zeros((4, 1)))])

    model = keras.Sequential([layer(1) for layer in layers])
    model.compile("sgd", "mse")
    several_workers._build(SimpleNamespace(say_once=said.append), model, Data())
    assert [tuple(weight.shape) for weight in model.weights] == [(3, 1), (1,)]
    assert (len(taken), len(said)) == (batches, batches)


class Summed(SimpleNamespace):
    """A variable of which each replica has its own value, and which the strategy adds up when it is read."""

    synchronization, aggregation = tf.VariableSynchronization.ON_READ, tf.VariableAggregation.SUM


def test_variables_of_all_metrics_are_exchanged_at_once_in_each_reading(monkeypatch):
    """Keras reads them one after another, and gets the sums from before."""
    strategy, exchanged = TwoWorkers(), []
    total, count = Summed(value=tf.Variable(3.0)), Summed(value=tf.Variable(2.0))
    monkeypatch.setattr(several_workers, "tensorflow_variable", lambda variable: variable)

    def reduced_together(strategy, operation, variables):
        exchanged.append((operation, len(variables)))
        return [2 * each.value for each in variables]

    monkeypatch.setattr(several_workers, "reduced_together", reduced_together)
    monkeypatch.setattr(several_workers, "compiled", lambda function: function)

    class Trainer:
        distribute_strategy, metrics_variables = strategy, [total, count]

        def get_metrics_result(self):
            read = (self.distribute_strategy.reduce("SUM", each, axis=None) for each in self.metrics_variables)
            return {"loss": float(next(read)) / float(next(read))}

    read = several_workers._summing_at_once(Trainer.get_metrics_result)
    trained = Trainer()
    assert read(trained) == {"loss": 1.5}
    total.value.assign(5.0)
    assert read(trained) == {"loss": 2.5}
    assert exchanged == [("SUM", 2)] * 2
    assert "reduce" not in vars(strategy)


def test_orders_of_workers_are_the_same_only_with_the_same_seed():
    def order(*seeds):
        pipeline = tf.data.Dataset.range(9)
        for seed in seeds:
            pipeline = pipeline.shuffle(9, seed=seed)
        return datasets.order_of(pipeline.batch(3))

    assert order(1, 2) == order(1, 2)
    assert len({order(1), order(2), order(1, 2), order()}) == 4


def test_orders_of_arrays_are_the_same_only_with_the_same_seed():
    def order(seed):
        tf.random.set_seed(seed)
        return datasets.order_of(tf.data.Dataset.range(1).map(lambda _: tf.random.shuffle(tf.range(9))))

    assert order(1) == order(1)
    assert order(None) != order(None)
    assert order(1) != order(2)


@pytest.mark.parametrize("is_file", [True, False])
def test_only_files_of_many_samples_are_shared_one_by_one(is_file):
    read = tf.data.TextLineDataset if is_file else lambda path: tf.data.Dataset.from_tensors(tf.io.read_file(path))
    pipeline = tf.data.Dataset.from_tensor_slices(["a", "b"]).interleave(read).batch(2)
    assert datasets.reads_records(pipeline) is is_file


def test_asking_leaves_model_and_strategy_as_they_were():
    strategy = TwoWorkers()
    model = model_of(strategy)
    before = dict(vars(model)), dict(vars(strategy))
    several_workers._averages_nests(model, trainer.TensorFlowTrainer._maybe_symbolic_build)
    several_workers._averages_along_an_axis(strategy)
    assert (dict(vars(model)), dict(vars(strategy))) == before


def test_only_a_strategy_with_other_processes_spans_workers():
    assert spans_workers(TwoWorkers())
    assert not spans_workers(tf.distribute.get_strategy())
    assert not spans_workers(tf.distribute.MirroredStrategy(["CPU:0"]))


@pytest.mark.parametrize(
    ("cluster", "task", "number"),
    [
        ({"worker": ["a", "b"]}, ("worker", 0), None),
        ({"worker": ["a", "b"]}, ("worker", 1), 1),
        ({"chief": ["a"], "worker": ["b"]}, ("chief", 0), None),
        ({"chief": ["a"], "worker": ["b"]}, ("worker", 0), 0),
    ],
)
def test_chief_is_the_first_worker_unless_the_cluster_names_another(cluster, task, number):
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(cluster), task_type=task[0], task_id=task[1]
    )
    assert beside_the_chief(TwoWorkers(resolver)) == number


@pytest.mark.parametrize("count", [0, 1, 5])
def test_batches_are_run_one_by_one_until_the_data_ends(count):
    """Keras' own function has no result to return if there is no batch, and must not be asked for one."""

    def function(iterator):
        for _, batch in zip(range(2), iterator, strict=False):
            seen.append(batch)

    model = SimpleNamespace(steps_per_execution=2, distribute_strategy=TwoWorkers())
    step, seen, data = several_workers.one_by_one(model, function), [], iter(range(count))
    for _ in range(0, count, 2):
        step(data)
    with pytest.raises(tf.errors.OutOfRangeError):
        step(data)
    assert seen == list(range(count))


def test_single_steps_stay_as_keras_made_them():
    for steps, strategy in ((1, TwoWorkers()), (2, tf.distribute.get_strategy())):
        model = SimpleNamespace(steps_per_execution=steps, distribute_strategy=strategy)
        assert several_workers.one_by_one(model, print) is print
