"""Graph loops, iteration by iteration: what the forward pass keeps for the backward pass, and for how long."""

from __future__ import annotations

import keras
import pytest
import tensorflow as tf

from oomph.planning.breakdown import items
from oomph.planning.live import subject
from oomph.planning.live.engine import engine_for
from oomph.planning.live.flattening import flatten
from oomph.planning.live.loops import number_of
from oomph.planning.live.tracing import SizeGrowth, Traced, is_update_of, traced_program
from oomph.planning.liveness import Order, simulate
from oomph.planning.program import Program

STEPS, WIDTH = 12, 64
layers = keras.layers


def program_of(function, *specs) -> tuple[Program, list[str]]:
    graph = tf.function(function).get_concrete_function(*specs).graph
    flat = flatten(graph)
    program = traced_program([Traced(1, None, flat)], lambda name: False)
    assert program is not None
    return program, flat.unknown


def rows(x):
    """Keeps the tanh of each step for the gradient."""

    def step(i, h):
        return i + 1, tf.tanh(h + tf.gather(x, i))

    with tf.GradientTape() as tape:
        tape.watch(x)
        _, last = tf.while_loop(lambda i, h: i < STEPS, step, (0, tf.zeros([WIDTH, WIDTH])))
        loss = tf.reduce_sum(last)
    return tape.gradient(loss, x)


def test_every_loop_iteration_is_unrolled_into_the_program() -> None:
    program, unknown = program_of(rows, tf.TensorSpec([STEPS, WIDTH, WIDTH]))
    kinds = [operation.kind for operation in program.operations]
    assert kinds.count("Tanh") == STEPS
    assert kinds.count("TanhGrad") == STEPS
    assert "While" not in kinds
    assert not any("iterations" in text for text in unknown)


def test_tensors_pushed_by_an_iteration_live_until_the_backward_pass() -> None:
    program, _ = program_of(rows, tf.TensorSpec([STEPS, WIDTH, WIDTH]))
    tensor = WIDTH * WIDTH * 4
    peak = simulate(program, 1, Order.FIRST_READY).peak
    kept = STEPS * tensor  # the tanh of each step
    given_and_gradient = 2 * STEPS * tensor
    assert kept + given_and_gradient <= peak <= 1.35 * (kept + given_and_gradient)


def test_a_keras_layer_is_unrolled_forwards_and_backwards() -> None:
    hidden = keras.layers.Bidirectional(keras.layers.GRU(16))
    model = keras.Sequential([keras.Input((STEPS, 8)), hidden, keras.layers.Dense(1)])
    model.compile("sgd", "mse", jit_compile=False)

    def step(x, y):
        return model.train_step((x, y))

    program, unknown = program_of(step, tf.TensorSpec([4, STEPS, 8]), tf.TensorSpec([4, 1]))
    assert not unknown
    iterations = {operation.name for operation in program.operations if operation.kind == "TanhGrad"}
    assert len(iterations) == 2 * STEPS


def test_loop_with_a_data_dependent_end_is_estimated_and_reported() -> None:
    def step(x):
        return tf.while_loop(lambda i, h: tf.reduce_sum(h) < 100.0, lambda i, h: (i + 1, h + x), (0, x))[1]

    program, unknown = program_of(step, tf.TensorSpec([8, 8]))
    assert any("assumed to run 32 iterations" in text for text in unknown)
    assert {operation.kind for operation in program.operations} & {"While", "StatelessWhile"}


@pytest.mark.parametrize(
    ("make", "wanted"),
    [
        (lambda n: n + 3 * n, 20),
        (lambda n: tf.maximum(n, 7) - tf.minimum(n, 2), 5),
        (lambda n: tf.logical_and(n < 6, tf.logical_not(n > 5)), True),
        (lambda n: tf.reduce_max(tf.constant([4, 9, 2])) // 2 % 3 + tf.identity(n), 6),
    ],
)
def test_graph_numbers_computed_from_known_inputs_are_evaluated(make, wanted) -> None:
    graph = tf.function(make).get_concrete_function(tf.TensorSpec([], tf.int32)).graph
    (given,) = graph.inputs
    assert number_of(graph.outputs[0], {given.ref(): 5}) == wanted
    assert number_of(graph.outputs[0], {}) is None


def test_quadratic_growth_is_fitted_and_saturating_growth_is_linear() -> None:
    growth = SizeGrowth((2, 8, 32))
    pairs = growth.of([100 + 3 * b + 5 * b * b for b in (2, 8, 32)])
    assert pairs.at(100) == 100 + 300 + 50_000
    assert growth.of([20, 80, 320]).at(64) == 640
    level = growth.of([20, 80, 100])
    assert 100 <= level.at(64) <= 140


@pytest.mark.parametrize(
    ("name", "is_update"),
    [
        ("adam/Sub_126", True), ("adam_1/Mul", True), ("cond/cond/adam_1/Square_4", True),
        ("StatefulPartitionedCall/adam/Sqrt", True), ("gradient_tape/adam/MatMul", False), ("dense/adam", False),
        ("adamant/Mul", False), ("sequential/dense/MatMul", False),
    ],
)  # fmt: skip
def test_an_update_is_recognised_by_its_optimizer_scope(name, is_update) -> None:
    assert is_update_of([keras.optimizers.Adam(name="adam")])(name) is is_update


@pytest.mark.parametrize("is_scaled", [False, True])
def test_peak_during_the_update_is_attributed_to_the_update(is_scaled) -> None:
    model = keras.Sequential([keras.Input((256,)), layers.Dense(512), layers.Dense(512), layers.Dense(10)])
    adam = keras.optimizers.Adam()
    model.compile(keras.optimizers.LossScaleOptimizer(adam) if is_scaled else adam, "mse", jit_compile=False)
    batch = (tf.zeros([4, 256]), tf.zeros([4, 10]))
    subject.build(model, batch)
    engine = engine_for(model, batch, lambda text: None, runs=False)
    found = {item.name: item.size.expected for item in items(engine.program, engine.at(4), engine.held)}
    assert found["optimizer update"] > 512 * 512 * 4
    assert found.get("activations", 0) < 1 << 16, "four samples of at most 512 numbers in each layer"
