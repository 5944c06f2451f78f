"""Fingerprints: the same for equal bits, different for any other bits or order, and fast at any size."""

from __future__ import annotations

import time

import keras
import numpy as np
import pytest
import tensorflow as tf

from oomph.keras_bridge import fingerprints
from oomph.keras_bridge.graph import Slot


def of(*tensors):
    return fingerprints.as_number(fingerprints.of_tensors([tf.constant(tensor) for tensor in tensors]))


def test_only_equal_tensors_share_a_fingerprint():
    assert of([1.0, 2.0]) == of([1.0, 2.0])
    different = {
        of([1.0, 2.0]),
        of([2.0, 1.0]),
        of([1.0, 2.0], [3.0]),
        of([[1.0], [2.0]], [4.0]),
        of([True]),
        of(["a"]),
        of(["b"]),
    }
    assert len(different) == 7


def test_fingerprints_are_the_same_while_tracing():
    @tf.function
    def traced(x):
        return fingerprints.of_tensors([x])

    assert fingerprints.as_number(traced(tf.constant([1.0, 2.0]))) == of([1.0, 2.0])


def test_an_empty_list_of_tensors_has_a_fingerprint():
    assert isinstance(of(), int)
    assert fingerprints.as_number(None) == 0
    assert fingerprints.as_number(fingerprints.none()) == 0


def test_joined_fingerprints_depend_on_their_order():
    one, other = (fingerprints.of_tensors([tf.constant([n])]) for n in (1, 2))
    assert fingerprints.as_number(fingerprints.joined(one, other)) != fingerprints.as_number(
        fingerprints.joined(other, one)
    )


def test_unhashable_tensors_are_left_out_of_the_fingerprint():
    handle = tf.Variable(1.0).handle
    assert fingerprints.as_number(fingerprints.of_tensors([handle, tf.constant([1.0])])) == of([1.0])


def test_log_fingerprint_depends_on_every_value():
    assert fingerprints.of_logs({"loss": np.float32(0.5)}) == fingerprints.of_logs({"loss": tf.constant(0.5)})
    assert fingerprints.of_logs({"loss": np.float32(0.5)}) != fingerprints.of_logs(
        {"loss": np.nextafter(np.float32(0.5), 1)}
    )
    assert fingerprints.of_logs({"a": 1.0, "b": 2.0}) != fingerprints.of_logs({"a": 2.0, "b": 1.0})


def arrays():
    random = np.random.default_rng(0)
    for size in (0, 1, 100, 8192, 8193, 70_001, 1_000_003):
        yield random.normal(size=size)


@pytest.mark.parametrize("array", list(arrays()), ids=len)
def test_array_fingerprint_depends_on_values_order_dtype_and_shape(array):
    found = fingerprints.of_array(array)
    assert found == fingerprints.of_array(array.copy())
    assert found != fingerprints.of_array(array.astype("float32"))
    assert found != fingerprints.of_array(array[None])
    random = np.random.default_rng(1)
    for _ in range(20 if array.size else 0):
        changed = array.copy()
        changed.view(np.uint8)[random.integers(array.nbytes)] ^= 1 << random.integers(8)
        assert fingerprints.of_array(changed) != found
    for _ in range(20 if array.size > 1 else 0):
        one, other = random.choice(array.size, 2, replace=False)
        swapped = array.copy()
        swapped[[one, other]] = swapped[[other, one]]
        assert fingerprints.of_array(swapped) != found


def test_permuting_rows_changes_the_array_fingerprint():
    array = np.random.default_rng(0).normal(size=(4096, 64)).astype("float32")
    found = fingerprints.of_array(array)
    for seed in range(10):
        assert fingerprints.of_array(np.random.default_rng(seed).permutation(array)) != found
    assert fingerprints.of_array(array[::-1]) != found


def test_a_noncontiguous_array_has_the_fingerprint_of_its_copy():
    array = np.arange(100_000.0).reshape(100, 1000)
    assert fingerprints.of_array(array.T) == fingerprints.of_array(array.T.copy())
    assert fingerprints.of_array(array[:, ::2]) == fingerprints.of_array(array[:, ::2].copy())


def test_object_array_is_fingerprinted_by_its_plain_values():
    one = np.array([1, "a", None, [1]], object)
    assert fingerprints.of_array(one) == fingerprints.of_array(one.copy())
    assert fingerprints.of_array(one) != fingerprints.of_array(np.array([1, "b", None, [1]], object))


@pytest.mark.parametrize(
    "array",
    [
        np.zeros(1 << 30, np.uint8),
        np.broadcast_to(np.float32(1), (1 << 18, 1 << 18)),  # 256 GB, if somebody copied it
        np.lib.stride_tricks.as_strided(np.zeros(8), (1 << 40,), (0,)),
    ],
    ids=["contiguous", "broadcast", "strided"],
)
def test_very_large_array_is_fingerprinted_by_sampling(array):
    started = time.monotonic()
    assert fingerprints.of_array(array) == fingerprints.of_array(array)
    assert time.monotonic() - started < 5


def test_changing_any_value_of_a_large_array_changes_its_fingerprint():
    array = np.zeros(13_000_003)
    found = fingerprints.of_array(array)
    for place in (0, 1000, 6_500_001, 12_999_999, 13_000_002):
        array[place] = 1e-9
        assert fingerprints.of_array(array) != found, place
        array[place] = 0.0
    assert fingerprints.of_array(array) == found


def test_sampled_array_fingerprint_does_not_depend_on_strides():
    array = np.random.default_rng(0).integers(0, 255, (1 << 14, 1 << 13), np.uint8)
    assert fingerprints.of_array(array.T) == fingerprints.of_array(np.ascontiguousarray(array.T))
    changed = array.copy()
    changed[:, ::3] += 1
    assert fingerprints.of_array(changed) != fingerprints.of_array(array)


def test_state_fingerprint_depends_on_every_variable(small_model):
    model = small_model()
    state = fingerprints.StateFingerprint(Slot.each_of(model.variables))
    before = state.compute()
    assert state.compute() == before
    bias = model.layers[0].bias
    bias.assign(bias + 1e-30)
    changed = state.compute()
    assert changed != before
    bias.assign(keras.ops.zeros_like(bias))
    assert state.compute() == before
    assert fingerprints.StateFingerprint([]).compute() == 0


def test_state_fingerprint_depends_on_variables_of_every_dtype():
    variables = [
        tf.Variable(value, dtype=dtype)
        for value, dtype in [
            (1, "int64"),
            (1, "uint8"),
            (True, "bool"),
            (1, "bfloat16"),
            (1, "float16"),
            (1j, "complex64"),
            ("a", "string"),
        ]
    ]
    state = fingerprints.StateFingerprint([Slot.of(variable) for variable in variables])
    before = state.compute()
    for variable in variables:
        value = variable.numpy()
        variable.assign(tf.constant("b") if variable.dtype == tf.string else tf.zeros_like(variable))
        assert state.compute() != before, variable.dtype
        variable.assign(tf.constant(value, variable.dtype))
    assert state.compute() == before
