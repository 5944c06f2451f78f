"""Keras and TensorFlow objects inside the user's own: their variables, seeds, functions and positions."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from oomph.objects.library_kinds import DatasetIterator
from oomph.objects.picture import Picture


class Holder:
    def __init__(self, value=None):
        self.value = value


def trained_model():
    model = keras.Sequential(
        [keras.Input((2,)), keras.layers.Dense(2), keras.layers.Dropout(0.5), keras.layers.Dense(1)]
    )
    for n, variable in enumerate(model.variables):
        variable.assign(tf.ones_like(variable) * n)
    return model


class Own(keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.calls, self.log = 0, []


class Metric(keras.metrics.Metric):
    def __init__(self):
        super().__init__()
        self.total, self.calls = self.add_weight(shape=(), initializer="zeros"), 0

    def update_state(self, y, y_pred, sample_weight=None):
        self.calls += 1
        self.total.assign_add(1.0)

    def result(self):
        return self.total


class Schedule(keras.optimizers.schedules.LearningRateSchedule):
    def __init__(self):
        self.calls = 0

    def __call__(self, step):
        self.calls += 1
        return 0.1


class Module(tf.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.calls = tf.Variable(1.0), 0


def use_module(module):
    module.weight.assign(5.0)
    module.calls += 1


def numbers(thing):
    return [np.asarray(v).tolist() for v in thing.variables]


CASES = {
    "a seed generator": (
        lambda: keras.random.SeedGenerator(4),
        lambda g: g.next(),
        lambda g: np.asarray(g.state).tolist(),
    ),
    "a generator of TensorFlow's": (
        lambda: tf.random.Generator.from_seed(3),
        lambda g: g.normal((5,)),
        lambda g: g.state.numpy().tolist(),
    ),
    "a second model": (trained_model, lambda m: m.layers[0].kernel.assign(np.full((2, 2), 7.0)), numbers),
    "a layer with a seed": (
        lambda: keras.layers.Dropout(0.5, seed=1),
        lambda layer: layer(np.ones((2, 2)), training=True),
        numbers,
    ),
    "a layer of the user's": (
        Own,
        lambda layer: (setattr(layer, "calls", 3), layer.log.append(1)),
        lambda layer: (layer.calls, list(layer.log)),
    ),
    "a metric": (keras.metrics.Mean, lambda m: m.update_state([1.0, 2.0]), numbers),
    "a metric of the user's": (Metric, lambda m: m.update_state(1, 1), lambda m: (m.calls, float(m.total))),
    "a schedule of the user's": (Schedule, lambda s: s(1), lambda s: s.calls),
    "an optimizer with one": (
        lambda: keras.optimizers.SGD(Schedule()),
        lambda o: o._learning_rate(1),
        lambda o: o._learning_rate.calls,
    ),
    "a module": (Module, use_module, lambda m: (float(m.weight), m.calls)),
    "a history": (
        keras.callbacks.History,
        lambda h: (h.on_train_begin(), h.epoch.append(0), h.history.update(loss=[0.5])),
        lambda h: (h.epoch, h.history) if "epoch" in vars(h) else None,
    ),
    "a table": (
        lambda: tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, 0),
        lambda t: t.insert(tf.constant(["a", "b"]), tf.constant([3, 4], tf.int64)),
        lambda t: sorted(zip(*(x.numpy().tolist() for x in t.export()), strict=True)),
    ),
    "an iterator over a dataset": (
        lambda: iter(tf.data.Dataset.range(50).shuffle(50, seed=1).batch(5)),
        lambda i: [next(i) for _ in range(3)],
        None,
    ),
    "a tf.function's own state": (
        lambda: counting_function(),
        lambda f: (f(1), f(2)),
        lambda f: float(f.python_function.count),
    ),
}


def counting_function():
    count = tf.Variable(0.0)

    def function(x):
        count.assign_add(1.0)
        return count

    function.count = count
    return tf.function(function)


class Gate(keras.layers.Layer):
    """A layer that keeps a tensor of its call, as layers do that add a loss of their own later."""

    def call(self, x):
        self.importance = tf.reduce_mean(x)
        return x


def test_symbolic_tensor_left_by_a_trace_is_not_lost_state(resume):
    found = resume(lambda: Holder(Gate()), lambda holder: tf.function(holder.value)(tf.ones((2, 2))))
    assert tf.is_symbolic_tensor(found.killed.value.importance)
    assert found.lost == []


def test_iterator_whose_state_grows_during_examination_is_restored(resume, monkeypatch):
    saved, looks = DatasetIterator.array, []

    def take_three(holder):
        for _ in range(3):
            next(holder.value)
        looks.append("it fills its buffer from now on")

    def longer_each_time(self, thing):
        if looks:
            looks.append("another look")
        return np.concatenate([saved(self, thing), np.zeros(len(looks), np.uint8)])

    monkeypatch.setattr(DatasetIterator, "array", longer_each_time)
    found = resume(lambda: Holder(iter(tf.data.Dataset.range(50).shuffle(50, seed=1).batch(5))), take_three)
    assert len(looks) > 2
    assert found.lost == []
    assert next(found.resumed.value).numpy().tolist() == next(found.killed.value).numpy().tolist()


@pytest.mark.parametrize("name", CASES)
def test_each_library_objects_state_is_restored(resume, name):
    make, change, shown = CASES[name]
    found = resume(lambda: Holder(make()), lambda holder: change(holder.value))
    assert found.lost == []
    if shown is None:
        np.testing.assert_array_equal(next(found.resumed.value), next(found.killed.value))
    else:
        assert shown(found.resumed.value) == shown(found.killed.value)
        assert shown(found.resumed.value) != shown(make())


def test_optimizer_slots_built_late_are_restored(resume):
    def make():
        variable = tf.Variable([1.0, 2.0])
        return Holder([variable, keras.optimizers.Adam(0.1)])

    def change(holder):
        variable, optimizer = holder.value
        for _ in range(3):
            optimizer.apply([tf.constant([0.5, 0.25])], [variable])

    found = resume(make, change)
    assert found.lost == []
    for one, other in zip(numbers(found.resumed.value[1]), numbers(found.killed.value[1]), strict=True):
        assert one == other
    change(found.resumed)
    change(found.killed)
    np.testing.assert_array_equal(found.resumed.value[0], found.killed.value[0])


def test_objects_held_by_mapped_dataset_functions_are_found(resume):
    def make():
        seen = []
        data = tf.data.Dataset.range(3).map(lambda x: tf.py_function(lambda y: seen.append(int(y)) or y, [x], tf.int64))
        return Holder([seen, data.batch(2)])

    found = resume(lambda: Holder(make().value[1]), lambda holder: list(holder.value))
    assert found.lost == []
    assert found.changes.changed, "what was appended"


def test_a_function_called_in_a_graph_does_not_count_as_changed(resume):
    """Tracing `tf.numpy_function` stores what it builds from the function as an attribute of that function."""

    def make():
        def called(x):
            return x

        return Holder(called)

    def trace(holder):
        tf.function(lambda x: tf.numpy_function(holder.value, [x], tf.float32))(1.0)
        assert vars(holder.value), "or nothing is tested"

    found = resume(make, trace)
    assert (found.changes.changed, found.lost) == ({}, [])


def test_dataset_generator_state_is_restored(resume):
    class Source:
        def __init__(self):
            self.passes, self.rng = 0, np.random.default_rng(1)

        def __call__(self):
            self.passes += 1
            yield from self.rng.random(3)

    sources = []

    def make():
        sources.append(Source())
        return Holder(tf.data.Dataset.from_generator(sources[-1], output_signature=tf.TensorSpec((), tf.float64)))

    found = resume(make, lambda holder: [list(holder.value) for _ in range(2)])
    killed, resumed = sources
    assert found.lost == []
    assert resumed.passes == killed.passes == 2
    assert resumed.rng.random() == killed.rng.random()


def test_keras_bookkeeping_does_not_count_as_a_change(resume):
    def use(holder):
        model = holder.value
        model.predict(np.ones((2, 2)), verbose=0)
        model.summary(print_fn=lambda *a, **k: None)

    found = resume(lambda: Holder(trained_model()), use)
    assert found.lost == []
    assert found.changes.changed == {} or all("seed" in key or "variables" in key for key in found.changes.changed)


def test_grain_caches_do_not_change_the_fingerprint():
    grain = pytest.importorskip("grain", reason="needs Grain, which Keras reads data with")
    data = grain.MapDataset.source([1, 2, 3, 4]).map(lambda number: number + 1).batch(2)
    before = Picture.of([("data", data)]).fingerprint()
    assert len(list(data)) == 2
    assert Picture.of([("data", data)]).fingerprint() == before
    changed = grain.MapDataset.source([1, 2, 3, 5]).map(lambda number: number + 1).batch(2)
    assert Picture.of([("data", changed)]).fingerprint() != before
