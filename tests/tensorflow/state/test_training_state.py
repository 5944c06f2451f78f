"""A fit's state, written to a checkpoint and restored bit for bit."""

from __future__ import annotations

import json
import random

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager import context
from tensorflow.python.ops import stateful_random_ops

from oomph.checkpoint.container import Position
from oomph.checkpoint.manifest import Meta
from oomph.checkpoint.store import CheckpointStore
from oomph.errors import CheckpointError
from oomph.keras_bridge.graph import Slot
from oomph.resume.state import training_state


@pytest.fixture
def store(tmp_path):
    store = CheckpointStore(tmp_path / "checkpoints")
    store.open()
    return store


def through(store, named):
    store.draft_step(Position(0)).complete(
        Meta(), lambda writer: training_state.write(writer, training_state.values_of(named))
    )
    return store.latest_step()


@pytest.mark.parametrize(
    "value",
    [
        np.array([[1.5, np.nan, -0.0], [np.inf, 1e-40, 2.0]], "float32"),
        np.array(3, "int64"),
        np.zeros((0, 4), "float64"),
        np.array([True, False]),
        np.array([1, 2, 3], "uint32"),
        tf.constant([1.5, 2.5], tf.bfloat16).numpy(),
        np.array([1.5], "float16"),
        np.array([1 + 2j], "complex64"),
    ],
    ids=lambda value: f"{value.dtype}{list(value.shape)}",
)
def test_variables_of_every_dtype_are_restored_bit_for_bit(store, value):
    variable = tf.Variable(value)
    checkpoint = through(store, [("model/0", Slot.of(variable))])
    variable.assign(tf.zeros_like(variable))
    training_state.restore_variables(checkpoint, [("model/0", Slot.of(variable))])
    assert variable.numpy().dtype == value.dtype
    assert variable.numpy().tobytes() == value.tobytes()


def test_variable_names_are_complete_and_stable_across_attempts(small_model):
    def names():
        keras.backend.clear_session()
        model = small_model(keras.layers.BatchNormalization(), keras.layers.Dropout(0.1), metrics=["mae"])
        model.fit(np.ones((4, 4)), np.ones((4, 2)), verbose=0)
        named = training_state.named_slots(model)
        wanted = [*model.variables, *model.optimizer.variables, *model.metrics_variables]
        assert {id(slot.handle) for _, slot in named} == {id(Slot.of(v).handle) for v in wanted}
        assert len({name for name, _ in named}) == len(named)
        return [name for name, _ in named]

    assert names() == names()


@pytest.mark.parametrize(
    "others",
    [[np.zeros((3, 2), "float32")], [np.zeros((2, 3), "float64")], [np.zeros((2, 3), "float32")] * 2, []],
    ids=["shape", "dtype", "more", "fewer"],
)
def test_another_models_state_is_rejected_without_assignments(store, others):
    checkpoint = through(store, [("model/0", Slot.of(tf.Variable(np.ones((2, 3), "float32"))))])
    variables = [tf.Variable(value) for value in others]
    named = [(f"model/{index}", Slot.of(variable)) for index, variable in enumerate(variables)]
    with pytest.raises(CheckpointError):
        training_state.restore_variables(checkpoint, named)
    for variable, value in zip(variables, others, strict=True):
        np.testing.assert_array_equal(variable.numpy(), value)


def test_saved_values_are_copies_unaffected_by_later_steps():
    variable = tf.Variable(np.arange(4.0))
    held = list(training_state.values_of([("model/0", Slot.of(variable))]))
    variable.assign_add(tf.ones(4, tf.float64))
    variable.scatter_nd_add([[0]], tf.constant([5.0], tf.float64))
    np.testing.assert_array_equal(held[0].value, np.arange(4.0))
    assert held[0].value.flags.owndata


@pytest.mark.parametrize(
    ("layer", "value", "refused"),
    [
        ("dense", np.nan, True),
        ("dense", np.inf, True),
        ("optimizer", np.nan, True),
        ("moving", np.nan, True),
        ("moving", -np.inf, False),
        ("metric", np.nan, False),
    ],
)
def test_a_checkpoint_of_nonfinite_state_is_not_written(store, small_model, layer, value, refused):
    norm = keras.layers.BatchNormalization()
    model = small_model(norm)
    model.fit(np.ones((4, 4)), np.ones((4, 2)), verbose=0)
    variable = {
        "dense": model.layers[-1].kernel,
        "optimizer": model.optimizer.variables[-1],
        "moving": norm.moving_mean,
        "metric": model.metrics_variables[0],
    }[layer]
    variable.assign(np.full(variable.shape, value))
    named = training_state.named_slots(model)
    finite = training_state.finite_only(model, named)

    def write(writer):
        training_state.write(writer, training_state.values_of(named), finite)

    assert bool(training_state.not_finite(named, finite)) is refused
    if not refused:
        store.draft_step(Position(0)).complete(Meta(), write)
        return
    with pytest.raises(training_state.NotFiniteError) as caught:
        store.draft_step(Position(0)).complete(Meta(), write)
    assert training_state.path_of(model, named, str(caught.value)) == variable.path
    assert list((store._root).iterdir()) == []


def test_every_random_generator_resumes_at_its_position():
    keras.utils.set_random_seed(3)
    tf.random.get_global_generator()
    keras.random.normal((1,))

    def draw():
        return [
            random.random(),
            float(np.random.normal()),
            context.internal_operation_seed(),  # from eager ops such as tf.random.normal
            float(tf.random.get_global_generator().normal(())),
            float(keras.random.normal(())),
        ]

    draw()
    saved = json.loads(json.dumps(training_state.random_state()))
    expected = [draw(), draw()]
    draw()
    training_state.restore_random_state(saved)
    assert [draw(), draw()] == expected


def test_a_missing_global_generator_is_created_when_restoring(monkeypatch):
    """Keras and TensorFlow create theirs at the first draw, for example in a callback."""
    float(keras.random.normal(())), float(tf.random.get_global_generator().normal(()))
    saved = json.loads(json.dumps(training_state.random_state()))
    expected = [random.random(), float(tf.random.get_global_generator().normal(())), float(keras.random.normal(()))]
    monkeypatch.setattr(stateful_random_ops, "global_generator", None)
    keras.src.backend.common.global_state.set_global_attribute("global_seed_generator", None)
    training_state.restore_random_state(saved)
    drawn = [random.random(), float(tf.random.get_global_generator().normal(())), float(keras.random.normal(()))]
    assert drawn == expected


def test_unusual_global_numpy_generator_is_not_saved(monkeypatch):
    monkeypatch.setattr(np.random, "get_state", lambda legacy: {"bit_generator": "PCG64", "state": {}})
    assert "numpy" not in training_state.random_state()


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_nonfinite_optimizer_slots_are_detected_like_nonfinite_weights(value):
    """Training would continue from them and become NaN one step later."""
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    model.optimizer.build(model.trainable_variables)
    named = training_state.named_slots(model)
    finite = training_state.finite_only(model, named)
    assert training_state.not_finite(named, finite) == ""
    moment = next(v for v in model.optimizer.variables if v.shape == (2, 1))
    moment.assign(np.full((2, 1), value, "float32"))
    assert training_state.not_finite(named, finite).startswith("optimizer/")


def test_restored_random_state_overrides_a_later_seed():
    tf.random.set_seed(7)
    drawn_before = tf.random.normal([2]).numpy().tolist()
    state = json.loads(json.dumps(training_state.random_state()))
    drawn = tf.random.normal([2]).numpy().tolist()
    tf.random.set_seed(1)
    training_state.restore_random_state(state)
    assert tf.random.normal([2]).numpy().tolist() == drawn != drawn_before
