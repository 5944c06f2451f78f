"""Which metrics add up over samples on their own, and what the others return for merging."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from oomph.exact_step.micro_batch.interception import MicroBatchMetrics, all_metrics, is_foreign

pytestmark = pytest.mark.usefixtures("float64")


class Largest(keras.metrics.Metric):
    """A custom metric, which does not add up."""

    def __init__(self, name="largest"):
        super().__init__(name=name)
        self.inner = keras.metrics.Mean()
        self.largest = self.add_variable((), "zeros", name="largest")

    def update_state(self, y_true, y_pred, sample_weight=None):
        self.largest.assign(keras.ops.maximum(self.largest, keras.ops.max(y_true)))

    def result(self):
        return self.largest


class Renamed(keras.metrics.MeanSquaredError):
    def result(self):
        return 2 * super().result()


def number(y_true, y_pred):
    return keras.ops.mean(y_true)


@pytest.fixture
def model(small_model):
    def make(*metrics):
        model = small_model(metrics=list(metrics))
        model.train_on_batch(np.ones((2, 4)), np.ones((2, 2)))
        model.reset_metrics()
        return model

    return make


def test_metrics_in_keras_containers_are_found_but_not_nested_foreign_ones(model):
    own = Largest()
    made = model("mae", own)
    names = [metric.name for metric in all_metrics(made)]
    assert names[0] == "loss"
    assert {"mae", "largest"} <= {name.replace("mean_absolute_error", "mae") for name in names}
    assert not any(metric is own.inner for metric in all_metrics(made))
    assert len({id(metric) for metric in all_metrics(made)}) == len(names)


@pytest.mark.parametrize(
    ("metric", "foreign"),
    [(keras.metrics.AUC(), False), (keras.metrics.Mean(), False), (Renamed(), False), (Largest(), True)],
)
def test_a_metric_is_foreign_when_its_own_code_updates_it(metric, foreign):
    assert is_foreign(metric) == foreign


def test_metric_scalars_are_collected_for_merging_but_sample_rows_are_not(model):
    mean, total = keras.metrics.Mean(), keras.metrics.Sum()
    made = model()
    part = MicroBatchMetrics(made)
    with MicroBatchMetrics.replaced(made, lambda: part):
        mean.update_state(3.0)
        mean.update_state(tf.constant(5.0), sample_weight=tf.constant([1.0, 2.5]))
        mean.update_state([1.0, 2.0, 6.0] * tf.ones(3))
        total.update_state(tf.constant(4.0))
    assert [float(value) for value in part.handed.values] == [3.0, 5.0, 4.0]
    assert [None if w is None else float(w) for w in part.handed.weights] == [None, 3.5, None]
    assert [metric is total for metric in part.means] == [False, False, True]
    assert (float(mean.result()), float(mean.count.numpy()), float(total.result())) == (3.0, 3.0, 0.0)


def test_traced_vectors_of_static_length_are_collected_for_merging(model):
    mean, made, handed = keras.metrics.Mean(), model(), []
    part = MicroBatchMetrics(made)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float64)])
    def step(rows):
        with MicroBatchMetrics.replaced(made, lambda: part):
            for values in (rows, [1.0, 3.0], tf.ones((3,), tf.float64)):
                mean.update_state(values)
                handed.append(len(part.handed.values))

    step.get_concrete_function()
    assert handed == [0, 1, 2]


def test_a_foreign_metric_returns_its_arguments_and_is_not_updated(model):
    own = Largest()
    made, y = model(own), tf.constant([[1.0], [9.0]])
    part = MicroBatchMetrics(made)
    with MicroBatchMetrics.replaced(made, lambda: part):
        own.update_state(y, y_pred=-y)
    assert part.foreign == [own]
    ((args, kwargs),) = part.handed.arguments
    assert (args[0] is y, kwargs["y_pred"].numpy().tolist()) == (True, [[-1.0], [-9.0]])
    assert float(own.result()) == 0


def test_each_metric_result_is_traced_back_to_its_metric(model):
    made = model("mae")
    part = MicroBatchMetrics(made)
    with MicroBatchMetrics.replaced(made, lambda: part):
        logs = made.get_metrics_result()
    sources = {name: part.source_of(leaf) for name, leaf in logs.items()}
    assert sources["loss"] is made._loss_tracker
    assert sources["mae"].name in ("mae", "mean_absolute_error")
    assert part.source_of(tf.constant(1.0)) is None


def test_replaced_metric_methods_are_restored_even_after_an_error(model):
    made = model("mae", Largest())
    before = keras.metrics.Mean.update_state
    with MicroBatchMetrics.replaced(made, lambda: MicroBatchMetrics(made)):
        assert keras.metrics.Mean.update_state is not before
    with pytest.raises(ZeroDivisionError), MicroBatchMetrics.replaced(made, lambda: MicroBatchMetrics(made)):
        raise ZeroDivisionError
    assert keras.metrics.Mean.update_state is before
    assert not any({"result", "update_state"} & set(vars(metric)) for metric in all_metrics(made))
