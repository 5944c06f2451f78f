"""On whole batches, the guarded step is bit-identical to Keras', with one or several steps per execution."""

from __future__ import annotations

import time
import weakref

import keras
import numpy as np
import pytest
import tensorflow as tf

from oomph.exact_step.step import execution, full_batch_step
from oomph.exact_step.step import out_of_memory as module
from oomph.exact_step.step.full_batch_step import FullBatchStep
from oomph.exact_step.step.out_of_memory import Failed, attempt

RANDOM = np.random.default_rng(0)
X, Y = RANDOM.normal(size=(38, 4)).astype("float32"), RANDOM.normal(size=(38, 1)).astype("float32")


def model(*layers, **options):
    keras.utils.set_random_seed(0)
    first = [keras.layers.Dense(8), keras.layers.BatchNormalization(), keras.layers.Dropout(0.3)]
    made = keras.Sequential([keras.Input((4,)), *first, *layers, keras.layers.Dense(1)])
    made.compile("adam", "mse", metrics=["mae"], **{"jit_compile": False, **options})
    return made


def values(model):
    return [v.numpy() for v in [*model.variables, *model.optimizer.variables, *model.metrics_variables]]


class Logs(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.seen = []

    def on_train_batch_end(self, batch, logs=None):
        self.seen.append((batch, dict(logs)))


def trained(model, data, **options):
    logs = Logs()
    history = model.fit(data(), epochs=2, verbose=0, shuffle=False, callbacks=[logs], **options)
    return history.history, logs.seen, values(model)


def known():
    return tf.data.Dataset.from_tensor_slices((X, Y)).batch(4)


def unknown():
    """Yields ten batches, but Keras does not know that number."""
    return known().filter(lambda x, y: True)


@pytest.mark.filterwarnings("ignore:Your input ran out of data")
@pytest.mark.parametrize(
    ("steps", "data", "options"),
    [
        (1, unknown, {}),
        (3, known, {}),
        (3, unknown, {}),
        (3, known, {"run_eagerly": True}),
    ],
)
def test_ten_batches_train_bit_identically_to_keras(guard, watch, steps, data, options, monkeypatch):
    monkeypatch.setattr(full_batch_step, "_PAYS_AFTER", 0)  # the first step holds its values, the others do not
    theirs = trained(model(steps_per_execution=steps, **options), data)
    ours = model(steps_per_execution=steps, **options)
    guard(ours)
    history, logs, variables = trained(ours, data)
    assert (history, logs) == theirs[:2]
    for one, other in zip(variables, theirs[2], strict=True):
        np.testing.assert_array_equal(one, other)
    assert int(ours.optimizer.iterations.numpy()) >= 20
    assert (watch.broken, watch.failures) == ([], [])
    assert watch.steps == 2 * -(-10 // steps)


@pytest.mark.parametrize(
    ("before", "steps", "jit"),
    [
        ((36,), 1, False),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in [((36,), 1, True), ((36,), 2, False), ((), 1, False), ((), 2, False)]
        ),
        pytest.param((), 1, True, marks=pytest.mark.slow),
    ],
)
def test_other_batch_sizes_train_bit_identically_to_keras(guard, steps, jit, before):
    """Keras traces the second size for all sizes. A trace for one size is optimized, and rounds, differently."""
    x, y = np.random.default_rng(5).normal(size=(2, 192, 4)).astype("float32")
    y = y[:, :1]

    def train(guarded):
        keras.utils.set_random_seed(0)
        layers = [keras.layers.Dense(16, "relu"), keras.layers.BatchNormalization(), keras.layers.Dense(1)]
        made = keras.Sequential([keras.Input((4,)), *layers])
        made.compile("adam", "mse", jit_compile=jit, steps_per_execution=steps)
        if guarded:
            guard(made)
        for size in before:
            made.train_on_batch(x[:size], y[:size])
        for size in (16, 32, 48):
            made.fit(x, y, batch_size=size, epochs=2, verbose=0, shuffle=False)
        return made

    plain, ours = train(guarded=False), train(guarded=True)
    for one, other in zip(values(plain), values(ours), strict=True):
        assert one.tobytes() == other.tobytes()
    forms = list(ours.train_function._full_batch._forms.values())
    assert [form.spec[0].shape[0] for form in forms][:2] == [16, None]


def step_of(made, can_go_back=True):
    made.optimizer.build(made.trainable_variables)
    whole = FullBatchStep(made, made.train_step, can_go_back=can_go_back)
    iterator = iter(known())
    whole.prepare(iterator)
    return whole, iterator


def test_step_that_fails_before_its_commit_returns_its_batch_unchanged(memory, needs):
    made = model(needs())
    whole, iterator = step_of(made)
    whole.run(iterator)
    whole.count_commits()
    before, memory.room = values(made), 3
    failed = whole.run(iterator)
    assert isinstance(failed, Failed)
    assert (failed.phase, failed.done, failed.oom.requested_bytes) == ("compute", 0, 256)
    np.testing.assert_array_equal(failed.batch[0], X[4:8])
    for one, other in zip(values(made), before, strict=True):
        np.testing.assert_array_equal(one, other)
    memory.room = 4
    assert not isinstance(whole.run_held(failed.batch), Failed)
    assert int(made.optimizer.iterations.numpy()) == 2


@pytest.mark.parametrize("can_go_back", [True, False])
def test_only_first_steps_hold_back_assignments_without_a_memory_limit(memory, needs, monkeypatch, can_go_back):
    """Such a failure is rare, and holding every value costs time. Without checkpoints, values are held anyway."""
    monkeypatch.setattr(FullBatchStep, "_is_limited", lambda step: False)
    monkeypatch.setattr(full_batch_step, "_PAYS_AFTER", 0)
    made = model(needs())
    whole, iterator = step_of(made, can_go_back)
    memory.room = 3
    assert whole.run(iterator).phase == "compute", "the first"
    memory.room = 4
    whole.run(iterator)
    whole.count_commits()
    memory.room = 3
    failed = whole.run(iterator)
    assert failed.phase == ("commit" if can_go_back else "compute")
    np.testing.assert_array_equal(failed.batch[0], X[8:12])


def test_the_original_step_is_kept_when_a_lighter_one_cannot_be_built(memory, needs, monkeypatch):
    def broken(graph):
        raise ValueError("no such node")

    monkeypatch.setattr(FullBatchStep, "_is_limited", lambda step: False)
    monkeypatch.setattr(full_batch_step, "_PAYS_AFTER", 0)
    monkeypatch.setattr(execution, "without_barriers", broken)
    whole, iterator = step_of(model(needs()))
    for _ in range(2):
        assert not isinstance(whole.run(iterator), Failed)
        whole.count_commits()
    memory.room = 3
    assert whole.run(iterator).phase == "compute"


@pytest.mark.parametrize("failing", [1, 2, 5, 6])
def test_steps_before_a_failure_in_the_same_execution_are_kept(memory, needs, failing):
    made = model(needs(), steps_per_execution=3)
    whole, iterator = step_of(made)
    memory.fail_at = failing
    for _ in range((failing - 1) // 3):
        assert not isinstance(whole.run(iterator), Failed)
        whole.count_commits()
    failed = whole.run(iterator)
    assert (failed.phase, failed.done) == ("compute", (failing - 1) % 3)
    np.testing.assert_array_equal(failed.batch[0], X[4 * failing - 4 : 4 * failing])
    assert int(made.optimizer.iterations.numpy()) == failing - 1


@pytest.mark.parametrize("failing", [1, 2])
def test_failure_during_an_execution_leaves_later_batches_in_the_iterator(memory, needs, failing, monkeypatch):
    take = memory.take

    def slowly(samples):
        time.sleep(0.2)  # long enough to fetch the next batch, for a loop that does not wait
        return take(samples)

    monkeypatch.setattr(memory, "take", slowly)
    whole, iterator = step_of(model(needs(), steps_per_execution=3))
    memory.fail_at = failing
    failed = whole.run(iterator)
    np.testing.assert_array_equal(failed.batch[0], X[4 * failing - 4 : 4 * failing])
    np.testing.assert_array_equal(next(iterator)[0], X[4 * failing : 4 * failing + 4])


def failing_update(memory, before):
    """An optimizer whose update of a variable fails, before or after it has written the variable."""

    class Fails(keras.optimizers.SGD):
        def update_step(self, gradient, variable, rate):
            if not before:
                super().update_step(gradient, variable, rate)
            taken = tf.numpy_function(lambda value: memory.take(value.size), [variable], tf.int32)
            with tf.control_dependencies([taken]):
                super().update_step(gradient, variable, rate)

    made = model()
    made.compile(Fails(0.1), "mse", jit_compile=False)
    whole, iterator = step_of(made)
    whole.run(iterator)
    whole.count_commits()
    memory.fail_at = len(memory.seen) + 3
    return made, whole, iterator


def test_update_values_are_computed_before_the_first_variable_is_written(memory):
    made, whole, iterator = failing_update(memory, before=True)
    before = values(made)
    assert whole.run(iterator).phase == "compute"
    for one, other in zip(values(made), before, strict=True):
        np.testing.assert_array_equal(one, other)


def test_failure_during_the_commit_is_reported_as_a_commit_failure(memory):
    made, whole, iterator = failing_update(memory, before=False)
    before = values(made)
    assert whole.run(iterator).phase == "commit"
    assert any((one != other).any() for one, other in zip(values(made), before, strict=True))


def test_other_errors_are_raised_without_holding_a_batch(needs):
    made = model()
    whole, _ = step_of(made)
    data = known().map(lambda x, y: (tf.debugging.check_numerics(x, "mine"), y))
    bad = iter(data.concatenate(data.map(lambda x, y: (x, y))))
    whole.prepare(bad)
    with pytest.raises(ZeroDivisionError):
        attempt(lambda: 1 / 0)
    whole.run(bad)
    (form,) = whole._forms.values()
    assert form.batch_held() is None


@pytest.mark.parametrize("text", ["CUDNN_STATUS_ALLOC_FAILED", "CUBLAS_STATUS_ALLOC_FAILED"])
@pytest.mark.parametrize("short", [True, False])
def test_a_library_error_counts_as_out_of_memory_only_if_memory_was_short(monkeypatch, text, short):
    class Device:
        @staticmethod
        def of_training_device():
            return Device()

        def was_nearly_full(self):
            return short

    def fails():
        raise tf.errors.InternalError(None, None, f"failed to create a handle: {text}")

    monkeypatch.setattr(module, "DeviceMemory", Device)
    if short:
        assert isinstance(attempt(fails), Failed)
    else:
        with pytest.raises(tf.errors.InternalError):
            attempt(fails)


def test_failed_step_objects_are_freed_before_the_retry(memory):
    held = []

    def step():
        activation = tf.ones(3)
        held.append(weakref.ref(activation))
        memory.room = 0
        memory.take_eagerly(1)

    failed = attempt(step)  # it keeps the error, which has a traceback
    assert isinstance(failed, Failed)
    assert held[0]() is None


def test_batch_size_is_known_when_the_dataset_fixes_it():
    made = model()
    whole, _ = step_of(made)
    assert not whole.knows_size()
    other = FullBatchStep(made, made.train_step)
    other.prepare(iter(known().take(9).unbatch().batch(4, drop_remainder=True)))
    assert other.knows_size()


def test_a_commit_in_a_branch_is_detected_after_steps_without_one(memory):
    """The first step commits, the second does not, and the third fails after its commit."""

    class Sometimes(keras.Sequential):
        def train_step(self, data):
            x, y = data
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((self(x, training=True) - y) ** 2)
            gradients = tape.gradient(loss, self.trainable_variables)

            def apply():
                self.optimizer.apply(gradients, self.trainable_variables)
                return True

            applied = tf.cond(x[0, 0] > 0.0, apply, lambda: False)
            with tf.control_dependencies([applied]):
                taken = tf.numpy_function(memory.take, [tf.shape(x)[0]], tf.int32)
            with tf.control_dependencies([taken]):
                return {"loss": tf.identity(loss)}

    made = Sometimes([keras.Input((4,)), keras.layers.Dense(1)])
    made.compile("sgd", jit_compile=False)
    made.optimizer.build(made.trainable_variables)
    whole = FullBatchStep(made, made.train_step)
    signs = np.repeat([1.0, -1.0, 1.0], 4)[:, None].astype("float32") * np.ones((12, 4), "float32")
    iterator = iter(tf.data.Dataset.from_tensor_slices((signs, Y[:12])).batch(4))
    whole.prepare(iterator)
    for _ in range(2):
        assert not isinstance(whole.run(iterator), Failed)
        whole.count_commits()
    memory.room = 3
    assert whole.run(iterator).phase == "commit"
    assert int(made.optimizer.iterations.numpy()) == 2
