"""The contents of users' callbacks and a History are restored bit for bit, through JSON and separate arrays."""

from __future__ import annotations

import enum
import json
import math
import struct
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from oomph.redaction import redaction
from oomph.resume.state import nested

PAYLOAD = struct.unpack("<d", bytes.fromhex("01efcdab0000f87f"))[0]
ARRAYS = {
    "float32": np.arange(6, dtype=np.float32).reshape(2, 3),
    "NaN with a payload": np.frombuffer(bytes.fromhex("010000000000f8ff02000000000004f0"), np.float64),
    "no dimension": np.array(3, np.int16),
    "empty": np.zeros((0, 5), np.uint8),
    "in columns": np.asfortranarray(np.arange(12.0).reshape(3, 4)),
    "a view with steps": np.arange(24).reshape(4, 6)[::2, ::-3],
    "big-endian": np.arange(5, dtype=">i4"),
    "bool": np.array([True, False]),
    "complex": np.array([1 + 2j, -0.0]),
    "bfloat16": np.asarray(tf.constant([1.5, float("nan")], tf.bfloat16)),
    "half": np.array([6e-8, -0.0], np.float16),
    "text": np.array(["a", "bcd\0e"]),
    "bytes": np.array([b"a\0", b"\0bc"]),
    "times": np.array(["2026-01-01", "NaT"], "M8[ns]"),
    "durations": np.array([3, -1], "m8[s]"),
    "longdouble": np.array([1, 3], np.longdouble) / 7,
}
SCALARS = [np.float32(0.1), np.int64(-5), np.bool_(True), np.float16("nan"), np.datetime64("2026-01-01"), np.str_("x")]


def through(value):
    """Return the value as restored from a checkpoint."""
    document, arrays = nested.encode(value, "here/")
    back = {
        name.removeprefix("here/"): np.frombuffer(a.tobytes(), a.dtype).reshape(a.shape) for name, a in arrays.items()
    }
    return nested.decode(json.loads(json.dumps(document, allow_nan=False)), back, "here/")


def same(one, other):
    """True if both are bitwise equal, including their types."""
    if type(one) is not type(other):
        return False
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return same(list(one.items()), list(other.items()))
    if isinstance(one, float) and not isinstance(one, np.generic):
        return struct.pack("<d", one) == struct.pack("<d", other)
    if isinstance(one, tf.Tensor):
        return one.dtype == other.dtype and same(one.numpy(), other.numpy())
    if isinstance(one, (np.ndarray, np.generic)):
        return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    return one == other


@pytest.mark.parametrize("name", ARRAYS)
def test_an_encoded_array_is_restored_bit_for_bit(name):
    back = through([ARRAYS[name]])[0]
    assert same(ARRAYS[name], back)
    assert back.flags.f_contiguous == ARRAYS[name].flags.f_contiguous or not ARRAYS[name].flags.forc


@pytest.mark.parametrize("scalar", SCALARS, ids=repr)
@pytest.mark.parametrize("count", [1, 100])
def test_numpy_scalars_keep_their_type_alone_and_in_long_lists(scalar, count):
    assert same([scalar] * count, through([scalar] * count))


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(SCALARS),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=20,
)


@given(values)
@settings(max_examples=200, deadline=None)
def test_any_nested_value_is_restored(value):
    assert same(value, through(value))


@pytest.mark.parametrize(
    "value",
    [
        [float(n) for n in range(1000)],
        [PAYLOAD, -math.inf, -0.0] * 50,
        tuple(range(100)),
        [2**70 + n for n in range(100)],
        [True, False] * 50,
        [1, 1.0] * 50,
        [10**400, sys.maxsize],
        tf.constant([[1.5, float("nan")]]),
        tf.constant(2, tf.int8),
        {"a": {1: (), None: []}, 2.5: {}},
    ],
    ids=lambda value: repr(value)[:20],
)
def test_long_lists_and_unusual_values_are_restored(value):
    assert same(value, through(value))


def test_long_lists_are_stored_only_as_numbers():
    document, arrays = nested.encode({"a": [0.1] * 10**5, "b": [np.float32(0.1)] * 10**5, "c": np.zeros(10**6)}, "")
    assert len(json.dumps(document)) < 300
    assert sum(array.nbytes for array in arrays.values()) == 8 * 10**5 + 4 * 10**5 + 8 * 10**6


def test_variables_are_restored_as_arrays_and_enums_as_numbers():
    class Level(enum.IntEnum):
        LOW = 3

    found = through([tf.Variable(2.0), keras.Variable([1.0]), Level.LOW, tf.Variable(2.0, dtype=tf.bfloat16)])
    assert same(
        found,
        [np.array(2, np.float32), np.array([1], np.float32), 3, np.asarray(tf.constant(2.0, tf.bfloat16).numpy())],
    )


class Refuses:
    @property
    def numpy(self):
        raise RuntimeError("not now")


@pytest.mark.parametrize(
    "value",
    [
        {1}, object(), b"x", print, np.array([object()]), np.zeros(2, [("a", "i4")]), np.ma.array([1], mask=[True]),
        np.void(b"x"), tf.constant("text\0"), tf.ragged.constant([[1], [1, 2]]), Refuses(),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_unsupported_values_are_rejected(value):
    with pytest.raises((TypeError, RuntimeError)):
        nested.encode([value], "")


@pytest.mark.parametrize(
    "document",
    [
        {}, {"list": 5}, {"list": {"numbers": {"array": "9"}}}, {"array": "9"}, {"array": ["0", "O", [1]]},
        {"array": ["0", "<f8", [7]]}, {"array": ["0", "i4,i4", [1]]}, {"float": "x"}, {"int": 5}, {"call": "print"},
        {"dict": [[1]]}, {"dict": [[{"list": []}, 1]]}, {"scalar": {"list": []}}, {"a": 1, "b": 2}, {"transposed": {}},
        {"array": ["0", "V8", [1]]}, {"array": ["0", "<f8", "x"]}, {"array": {"array": "0"}}, {"tensor": 3},
    ],
    ids=json.dumps,
)  # fmt: skip
def test_a_malformed_document_is_rejected(document):
    with pytest.raises(ValueError, match=r".+"):
        nested.decode({"list": [document]}, {"0": np.zeros(8, np.uint8)})


def test_state_containing_a_known_key_or_password_is_rejected(monkeypatch):
    monkeypatch.setattr(redaction, "_known", {"Kq93jfPz81LmW0aa"})
    for state in ({"url": "https://x/?q=Kq93jfPz81LmW0aa"}, ["a", {"Kq93jfPz81LmW0aa": 1}]):
        with pytest.raises(TypeError, match="a key or password"):
            nested.encode(state, "own/")
    nested.encode({"url": "https://x/?q=word"}, "own/")
