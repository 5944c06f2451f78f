"""Values as tuples, to JSON and back; anything referred to by name is accepted only if it is what was meant."""

from __future__ import annotations

import collections
import json
import math
import os
import types

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from oomph.objects import values
from oomph.objects.values import CannotEncodeError

ATOMS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary(), st.complex_numbers())


@given(st.recursive(ATOMS, lambda inner: st.lists(inner, max_size=4).map(tuple), max_leaves=20))
def test_any_value_survives_json(value):
    def encoded(thing):
        return tuple(map(encoded, thing)) if type(thing) is tuple else values.encode(thing)

    before = encoded(value)
    text = json.dumps(values.to_json(before), allow_nan=False)
    assert repr(values.from_json(json.loads(text))) == repr(before)


@pytest.mark.parametrize("number", [1 << 1024, -(1 << 4000), (1 << 1024) - 1, 10**300])
def test_integers_of_any_size_survive_json_exactly(number):
    assert values.from_json(json.loads(json.dumps(values.to_json(number)))) == number


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan, -0.0, 5e-324])
def test_every_kind_of_float_survives_json_exactly(number):
    assert repr(values.from_json(json.loads(json.dumps(values.to_json(number), allow_nan=False)))) == repr(number)


@pytest.mark.parametrize(
    "document", [["what"], ["bytes"], ["bytes", "a", "b"], ["bytes", "!"], ["int", "x"], ["float", "x"], []]
)
def test_malformed_encoding_raises_value_error(document):
    with pytest.raises(ValueError, match=r".+"):
        values.from_json(document)


@pytest.mark.parametrize("thing", [object(), lambda: None, types.SimpleNamespace(), [1], {}])
def test_objects_with_an_identity_are_not_values(thing):
    assert not values.is_value(thing)
    with pytest.raises(CannotEncodeError):
        values.encode(thing)


@pytest.mark.parametrize("kind", [int, dict, np.float16, type(None), collections.deque])
def test_a_value_type_is_named_by_its_path(kind):
    assert values.decode(values.named(kind)) is kind


@pytest.mark.parametrize("thing", [os.path.join, np, print, open, type, object, np.ndarray, types.FunctionType])
def test_objects_other_than_value_types_have_no_type_name(thing):
    with pytest.raises(CannotEncodeError):
        values.named(thing)


@pytest.mark.parametrize("path", ["posix:system", "builtins:exec", "builtins:type", "os:", "", ":", "int", 5, None])
def test_invalid_type_names_are_not_decoded(path):
    with pytest.raises((ValueError, TypeError)):
        values.decode(("type", path))


@pytest.mark.parametrize(
    "value",
    [
        ("what",),
        (),
        ("named", "posix:system"),
        ("type", "os:nothing"),
        ("member", "os:path", "x"),
        ("date", "x", "y"),
        ("dtype", "numpy", "x,"),
        ("dtype", "numpy", "(2,)i4"),
        ("text", "Fraction", "1e999999999"),
        ("scalar", "O", bytes(8)),
        ("complex", "1", ("x",)),
    ],
)
def test_an_undecodable_value_raises_an_error(value):
    with pytest.raises((ValueError, TypeError, KeyError), match=r".*"):
        values.decode(value) if value else values.decode(("",))


def test_unknown_values_are_found_at_any_depth():
    value = ("a:B", "x", (values.UNKNOWN, "Thing"), ("tuple", 1, ("tuple", (values.UNKNOWN, "Other"))))
    assert list(values.unknown_in(value)) == ["Thing", "Other"]
    assert list(values.unknown_in(("tuple", "unknown", "Thing"))) == []


@pytest.mark.parametrize(
    "dtype", ["float32", "bfloat16", "int64", "bool", "complex64", "<U3", "S5", "float8_e4m3fn", "M8[ns]"]
)
def test_every_dtype_is_recovered_from_its_string_form(dtype):
    try:
        found = np.dtype(dtype)
    except TypeError:
        found = np.dtype(tf.as_dtype(dtype).as_numpy_dtype)
    assert values.dtype_of(values.text_of(found)) == found
