"""Training continues through out-of-memory errors raised by a layer, with the same weights as without errors."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache, partial

import keras
import numpy as np
import pytest
import tensorflow as tf

from oomph.exact_step.step import division, guarded_step
from oomph.exact_step.step.out_of_memory import COMMIT, attempt
from oomph.exact_step.step.probe import ProbeFinding
from oomph.keras_bridge.runtime.allocator import DeviceMemory, run_out_of_memory
from oomph.script.kept_micro_batches import Start

RANDOM = np.random.default_rng(0)
X, Y = RANDOM.normal(size=(190, 4)), RANDOM.normal(size=(190, 1))

pytestmark = pytest.mark.usefixtures("float64")


def data():
    return tf.data.Dataset.from_tensor_slices((X, Y)).batch(20)  # ten batches, the last of which has ten samples


def model(*layers, **options):
    keras.utils.set_random_seed(0)
    made = keras.Sequential([keras.Input((4,)), keras.layers.Dense(8), *layers, keras.layers.Dense(1)])
    made.compile(keras.optimizers.Adam(0.01), "mse", metrics=["mae"], **{"jit_compile": False, **options})
    return made


def with_loss(loss, made):
    made.compile(keras.optimizers.Adam(0.01), loss, metrics=["mae"], jit_compile=False)
    return made


def trained(made, epochs=1):
    history = made.fit(data(), epochs=epochs, verbose=0, shuffle=False).history
    return history, [v.numpy() for v in [*made.variables, *made.optimizer.variables]]


@cache
def undisturbed():
    return trained(model())


def assert_same(one, other):
    for name, expected in one[0].items():
        assert other[0][name] == pytest.approx(expected, rel=1e-10)
    for expected, value in zip(one[1], other[1], strict=True):
        np.testing.assert_allclose(value, expected, 1e-9, 1e-12)


@pytest.mark.parametrize("options", [{}, {"run_eagerly": True}, {"steps_per_execution": 3}])
def test_guarded_step_is_divided_from_the_first_step_on(guard, watch, memory, needs, options):
    dropout = partial(keras.layers.Dropout, seed=5)
    expected = trained(model(needs(), dropout(0.3), **options))
    made = model(needs(), dropout(0.3), **options)
    guard(made)
    memory.room = 17
    assert_same(expected, trained(made))
    assert watch.verdicts == ["exact"]
    assert watch.failures == [("compute", 20, 20)]
    assert watch.recoveries == [(20, 10)]
    assert not watch.broken


class Calls(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.names, self.losses = Counter(), []

    def on_train_begin(self, logs=None):
        self.names["train begin"] += 1

    def on_epoch_begin(self, epoch, logs=None):
        self.names["epoch begin"] += 1

    def on_train_batch_begin(self, batch, logs=None):
        self.names["batch begin"] += 1

    def on_train_batch_end(self, batch, logs=None):
        self.losses.append(logs["loss"])


def test_callbacks_see_a_divided_step_as_one_step(guard, memory, needs):
    expected, calls = Calls(), Calls()
    model(needs()).fit(data(), verbose=0, shuffle=False, callbacks=[expected])
    made = model(needs())
    guard(made)
    memory.room = 17
    made.fit(data(), verbose=0, shuffle=False, callbacks=[calls])
    assert calls.names == expected.names == {"train begin": 1, "epoch begin": 1, "batch begin": 10}
    assert calls.losses == pytest.approx(expected.losses, rel=1e-10)


def test_traced_batch_sizes_are_not_retraced(guard, watch, memory, needs):
    """Neither the partial batch at the end of each epoch nor a second fit causes a retrace."""
    traced = []

    class Notes(keras.layers.Layer):
        def call(self, x):
            traced.append(x.shape[0])
            return x

    made = model(Notes(), needs())
    guard(made)
    memory.room = 17
    trained(made)
    once = len(traced)
    trained(made, epochs=3)
    assert len(traced) == once
    assert watch.recoveries == [(20, 10)]


@pytest.mark.parametrize(
    ("failing", "options"),
    [
        (2, {}),
        pytest.param(7, {}, marks=pytest.mark.slow),
        (10, {}),
        (5, {"steps_per_execution": 3}),
        pytest.param(6, {"steps_per_execution": 3}, marks=pytest.mark.slow),
        (10, {"steps_per_execution": 3}),
    ],
)
def test_step_that_fails_at_any_point_is_recovered_exactly(guard, watch, memory, needs, failing, options):
    expected = undisturbed()
    made = model(needs(), **options)
    guard(made)
    memory.seen.clear()
    memory.fail_at = failing
    _, variables = trained(made)
    for one, other in zip(expected[1], variables, strict=True):
        np.testing.assert_allclose(other, one, 1e-9, 1e-12)
    assert watch.failures == [("compute", 10, 10) if failing == 10 else ("compute", 20, 20)]
    assert int(made.optimizer.iterations.numpy()) == 10


def test_preset_size_is_probed_and_used_from_the_first_step(guard, watch, memory, needs):
    expected = undisturbed()
    made = model(needs())
    guard(made).begin_with(Start(7))
    memory.seen.clear()
    memory.room = 16
    assert_same(expected, trained(made))
    assert (watch.verdicts, watch.failures, watch.recoveries) == (["exact"], [], [])
    assert (max(memory.seen), memory.seen.count(6)) == (7, 9), "nine batches of 20 as 7, 7 and 6; the probe takes 7"


class Centred(keras.layers.Layer):
    """Makes the samples of a batch depend on each other."""

    def call(self, x):
        return x - keras.ops.mean(x, axis=0)


def test_batch_of_dependent_samples_is_not_divided(guard, watch, memory, needs):
    made = model(needs(), Centred())
    guard(made)
    memory.fail_at = 3
    with pytest.raises(RuntimeError, match="compute: micro-batches are refused: the update depends on which samples"):
        trained(made)
    assert int(made.optimizer.iterations.numpy()) == 2


def test_a_batch_of_dependent_samples_is_divided_when_allowed(guard, watch, memory, needs):
    made = model(needs(), Centred())
    guard(made, "allow")
    memory.fail_at = 3
    trained(made)
    assert watch.verdicts[0].startswith("approximate: the update depends on which samples")
    assert int(made.optimizer.iterations.numpy()) == 10


def test_allowed_smaller_batches_train_as_in_plain_keras(guard, watch, memory, needs):
    def smaller():
        for start in range(0, 190, 20):
            sizes = [7, 7, 6] if start < 180 else [5, 5]
            for first, size in zip(start + np.cumsum([0, *sizes]), sizes, strict=False):
                yield X[first : first + size], Y[first : first + size]

    spec = (tf.TensorSpec((None, 4), "float64"), tf.TensorSpec((None, 1), "float64"))
    batches = tf.data.Dataset.from_generator(smaller, output_signature=spec)
    batches = batches.apply(tf.data.experimental.assert_cardinality(9 * 3 + 2))
    plain = model(needs(), Centred())
    expected = plain.fit(batches, shuffle=False, verbose=0).history
    made = model(needs(), Centred())
    guard(made, None, True).begin_with(Start(7))
    history, variables = trained(made)
    assert watch.verdicts[0].startswith("smaller batches: the update depends on which samples")
    assert_same((expected, [v.numpy() for v in [*plain.variables, *plain.optimizer.variables]]), (history, variables))


@pytest.mark.parametrize("options", [{}, {"run_eagerly": True}, {"steps_per_execution": 3}])
def test_failing_smaller_batch_shrinks_without_repeating_samples(guard, watch, memory, needs, options):
    made = model(needs(), Centred(), **options)
    guard(made, None, True).begin_with(Start(10))
    made.fit(X[:20], Y[:20], batch_size=20, verbose=0)  # probed
    memory.seen.clear()
    memory.fail_at = 4  # the second half of the second batch
    trained(made)
    assert memory.seen[:4] == [10, 10, 10, 10]
    assert watch.failures == [("compute", 20, 10)]
    assert float(made.metrics[0].count) == 190
    assert max(memory.seen[4:]) < 10
    assert int(made.optimizer.iterations.numpy()) == 2 + len(memory.seen) - 1


def test_step_judged_by_a_probe_is_probed_again_during_training(guard, watch, memory, needs):
    class CentredIfLarge(keras.layers.Layer):
        def call(self, x):
            return x - keras.ops.relu(keras.ops.mean(keras.ops.abs(x)) - 1000.0)

    made = model(needs(), CentredIfLarge())
    guard(made)
    memory.room = 10
    rare = tf.data.Dataset.from_tensor_slices((np.where(np.arange(190)[:, None] < 40, X, 1e6 * X), Y))
    with pytest.raises(RuntimeError, match="micro-batches are refused: the update depends on which samples"):
        made.fit(rare.batch(20), verbose=0, shuffle=False)
    assert watch.verdicts[0] == "exact"
    (again,) = watch.verdicts[1:]
    assert "; found after " in again
    assert watch.failed_probes == [], "each would cost ten seconds"
    assert 2 <= int(made.optimizer.iterations.numpy()) < 10


@pytest.mark.parametrize("choice", [(), (None, True)])
def test_a_new_process_is_requested_when_the_first_probe_runs_out_of_memory(guard, watch, memory, needs, choice):
    def sum_of_squares(y, p):
        return tf.reduce_sum((y - p) ** 2)

    made = with_loss(sum_of_squares, model(needs()))
    guard(made, *choice)
    memory.room = 1
    with pytest.raises(RuntimeError, match="compute: micro-batches are refused: too little memory is left for a probe"):
        trained(made)
    assert (watch.suggested, watch.verdicts) == (Start(1, guessed=True), [])


def test_step_is_refused_if_a_new_process_cannot_fit_a_probe(guard, watch, memory, needs):
    def sum_of_squares(y, p):
        return tf.reduce_sum((y - p) ** 2)

    made = with_loss(sum_of_squares, model(needs()))
    guard(made).begin_with(Start(1))
    memory.room = 1
    with pytest.raises(
        RuntimeError, match=r"micro-batches are refused: custom loss .*there was not enough memory for a probe"
    ):
        trained(made)
    assert watch.suggested is None


def test_later_probe_running_out_of_memory_does_not_affect_training(guard, watch, memory, needs, monkeypatch):
    def sum_of_squares(y, p):
        return 0.05 * tf.reduce_sum((y - p) ** 2)

    expected = trained(with_loss(sum_of_squares, model()))
    made = with_loss(sum_of_squares, model(needs()))
    guard(made)
    memory.room = 10
    find, probes = division.find, []

    def without_memory_later(model, divided, *others):
        probes.append(divided)
        if len(probes) == 1:
            return find(model, divided, *others)
        divided.settle([False], [], [])  # as far as a probe may get before its memory is used up
        divided.micro_step.take_for(True)
        return ProbeFinding(0, conclusive=False)

    monkeypatch.setattr(division, "find", without_memory_later)
    assert_same(expected, trained(made))
    assert len(probes) > 2
    assert watch.verdicts == ["exact"]


def test_training_stops_if_a_single_sample_does_not_fit(guard, watch, memory, needs):
    """In this process, the batch may not be the only cause; in one that has tried nothing else, it is."""
    made = model(needs())
    guard(made, "allow")
    memory.room = 0
    with pytest.raises(
        RuntimeError, match="micro-batches are refused: too little memory is left for a probe after the full batch"
    ):
        trained(made)
    assert watch.suggested == Start(1, guessed=True)
    made = model(needs())
    guard(made, "allow").begin_with(watch.suggested)
    with pytest.raises(RuntimeError, match="compute: one sample does not fit"):
        trained(made)
    assert watch.suggested is None
    assert watch.verdicts == ["approximate: custom layer Needs, and there was not enough memory for a probe"]
    assert int(made.optimizer.iterations.numpy()) == 0


def test_single_sample_memory_is_reported_in_a_suitable_unit(guard, watch, memory, needs, monkeypatch):
    monkeypatch.setenv("TF_CPU_ALLOCATOR_USE_BFC", "1")
    monkeypatch.setenv("TF_CPU_BFC_MEM_LIMIT_IN_MB", "60")
    made = model(needs())
    guard(made, "allow").begin_with(Start(1, guessed=True))
    memory.room = 0
    with pytest.raises(RuntimeError, match="the step needs 256 B in one block, but the device has 60 MiB in total"):
        trained(made)


@pytest.mark.parametrize(
    ("peak", "told"),
    [
        ((60 << 20) - 200, "of which up to 60 MiB was in use (1 KiB by weights and optimizer slots)"),
        (10 << 20, "at most 10 MiB was in use; the rest is fragmented or held by other processes"),
    ],
)
def test_out_of_memory_with_apparently_enough_device_memory_is_explained(
    guard, watch, memory, needs, monkeypatch, peak, told
):
    monkeypatch.setattr(DeviceMemory, "of_training_device", lambda gpu=None: DeviceMemory("CPU:0", 60 << 20))
    monkeypatch.setattr(DeviceMemory, "peak_bytes", lambda _: peak)
    made = model(needs())
    guard(made, "allow").begin_with(Start(1, guessed=True))
    memory.room = 0
    with pytest.raises(RuntimeError, match=f"needs 256 B in one block, but the device has 60 MiB.*{re.escape(told)}"):
        trained(made)


def test_failure_in_the_input_phase_mentions_the_micro_batch_size(guard, watch, monkeypatch):
    """If the data is computed on the device, smaller micro-batches leave more memory for it."""
    made = model()
    guard(made).begin_with(Start(5))
    monkeypatch.setattr(guarded_step, "attempt", lambda *_, **options: attempt(run_out_of_memory, **options))
    with pytest.raises(RuntimeError, match="out of memory while reading a batch"):
        trained(made)
    assert watch.failures == [("input", None, 5)]


def test_new_process_starts_small_and_grows_as_memory_allows(guard, watch, memory, needs):
    expected = undisturbed()
    made = model(needs())
    guard(made).begin_with(Start(1, guessed=True))
    memory.seen.clear()
    memory.room = 16
    assert_same(expected, trained(made))
    assert (watch.verdicts, watch.failures, watch.recoveries) == (["exact"], [], [])
    assert max(memory.seen[:6]) <= 4, "the probe"
    assert 4 < max(memory.seen) <= 16


def test_out_of_memory_in_the_update_suggests_smaller_parts(guard, watch, memory, needs):
    """Parts of the current size fit. Larger ones would only leave less memory for the update."""
    made = model(needs())
    step = guard(made)
    memory.room = 17

    def without_memory(logs):
        raise tf.errors.ResourceExhaustedError(None, None, memory.TEXT)

    step._on_batch._division.divided.commit = without_memory
    with pytest.raises(RuntimeError, match="out of memory while applying the update"):
        trained(made)
    assert watch.failures[-1][0] == "commit"
    assert watch.suggested == Start(watch.failures[-1][2] // 2, guessed=False)


def test_out_of_memory_in_the_update_does_not_suggest_parts_if_refused(guard, watch, needs):
    made = model(needs(), Centred())
    step = guard(made)
    step.begin_with(Start(7))
    step._on_batch._full_batch.run_held = lambda *_, **options: attempt(run_out_of_memory, phase=COMMIT)
    with pytest.raises(RuntimeError, match="out of memory while applying the update"):
        trained(made)
    assert watch.verdicts[0].startswith("refused: the update depends on which samples")
    assert watch.suggested is None


class Forward(keras.layers.Layer):
    """Records how many samples each call receives."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def call(self, x):
        def note(samples):
            self.seen.append(int(samples))
            return np.int32(0)

        with tf.control_dependencies([tf.numpy_function(note, [tf.shape(x)[0]], tf.int32)]):
            return tf.identity(x)


@pytest.mark.parametrize(("batch", "in_parts"), [(95, True), (24, False)])
def test_evaluation_is_divided_immediately_if_training_did_not_fit(
    guard, guard_evaluation, watch, memory, needs, batch, in_parts
):
    made = model(needs(), forward := Forward())
    step, evaluation = guard(made), guard_evaluation(made)
    memory.room = 4
    trained(made)
    assert step.micro_batch == 3
    failures = list(watch.failures)
    forward.seen.clear()
    found = made.evaluate(X, Y, batch_size=batch, verbose=0)
    assert watch.failures == failures
    assert (evaluation.micro_batch is not None) == (max(forward.seen) < batch) == in_parts
    plain = model(Forward())
    plain.set_weights(made.get_weights())
    assert found == pytest.approx(plain.evaluate(X, Y, batch_size=batch, verbose=0), rel=1e-9)


def test_evaluation_that_fitted_whole_is_not_divided_later(guard, guard_evaluation, memory, needs):
    made = model(needs(), forward := Forward())
    guard(made)
    evaluation = guard_evaluation(made)
    made.evaluate(X, Y, batch_size=95, verbose=0)
    memory.room = 4
    trained(made)
    forward.seen.clear()
    made.evaluate(X, Y, batch_size=95, verbose=0)
    assert evaluation.micro_batch is None
    assert set(forward.seen) == {95}


@pytest.mark.parametrize(("layer", "expected"), [(keras.layers.LSTM, True), (keras.layers.GlobalMaxPooling1D, False)])
def test_only_steps_with_loops_are_expected_to_leave_memory_gaps(guard, memory, needs, layer, expected):
    first = keras.layers.Reshape((4, 1)), keras.layers.Dense(2)
    made = keras.Sequential([keras.Input((4,)), *first, layer(*[3] * expected), needs(), keras.layers.Dense(1)])
    made.compile("sgd", "mse", jit_compile=False)
    step = guard(made)
    memory.room = 17
    trained(made)
    assert step.micro_batch is not None
    assert step._search.known.gaps == expected
