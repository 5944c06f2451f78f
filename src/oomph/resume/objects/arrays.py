"""NumPy arrays, and TensorFlow variables, tensors and tables. Large contents are represented by a fingerprint."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from oomph.keras_bridge import fingerprints
from oomph.protocol.reason_table import SHAPE
from oomph.resume.objects import values
from oomph.resume.objects.containers import all_plain
from oomph.resume.objects.kind import CannotGiveBackError, Decode, Encode, Kind, Part, TypeNamed
from oomph.resume.objects.named_texts import Among, texts_in
from oomph.resume.objects.values import Value


class Large(NamedTuple):
    """Represents an array in a content; equal fingerprints mean equal arrays."""

    fingerprint: str
    dtype: str
    shape: tuple[int, ...]


class NumberArray(Kind):
    """A NumPy array of numbers."""

    tag = "array"
    arrays = True

    def content(self, thing: Any, encode: Encode) -> Value:
        in_columns = thing.flags.f_contiguous and not thing.flags.c_contiguous  # sums depend on it
        described = Large(fingerprints.of_array(thing), values.text_of(thing.dtype), tuple(thing.shape))
        return ("large", *described, *(["F"] if in_columns else []))

    def array(self, thing: Any) -> Any:
        """A copy of the array's values."""
        return np.array(thing)

    def give_back(self, thing: Any, content: Value, decode: Decode) -> None:
        array = numbers(decode(content, thing))
        if thing.shape != array.shape or thing.dtype != array.dtype or not thing.flags.writeable:
            raise CannotGiveBackError("an array of another shape", SHAPE)
        np.copyto(thing, array)

    def build(self, content: Value, decode: Decode) -> Any:
        return numbers(decode(content))


class ObjectArray(Kind):
    """A NumPy array of Python objects."""

    tag = "object array"

    def parts(self, thing: Any) -> Iterator[Part]:
        items = thing.reshape(-1).tolist()
        if not all_plain(items):
            yield from ((f"[{number}]", item) for number, item in enumerate(items))

    def content(self, thing: Any, encode: Encode) -> Value:
        items = thing.reshape(-1).tolist()
        return (tuple(thing.shape), *(items if all_plain(items) else map(encode, items)))

    def give_back(self, thing: Any, content: Value, decode: Decode) -> None:
        if tuple(content[0]) != thing.shape:
            raise CannotGiveBackError("an array of another shape", SHAPE)
        old = Among(thing.reshape(-1).tolist())
        made: Any = np.empty(len(content) - 1, dtype=object)
        for number, each in enumerate(content[1:]):
            made[number] = decode(each, old)
        thing.reshape(-1)[:] = made

    def shell(self, content: Value, type_named: TypeNamed) -> Any:
        return empty_objects(content[0], len(content) - 1)


class Variable(Kind):
    """A `tf.Variable`, or the Keras variable that wraps one."""

    tag = "variable"
    arrays = True

    def content(self, thing: Any, encode: Encode) -> Value:
        return NumberArray().content(self.array(thing), encode)

    def array(self, thing: Any) -> Any:
        """A copy of the value of the variable or tensor."""
        return np.array(_tensorflow_variable(thing).numpy())

    def give_back(self, thing: Any, content: Value, decode: Decode) -> None:
        array = numbers(decode(content))
        variable = _tensorflow_variable(thing)
        if not variable.shape.is_compatible_with(array.shape):
            raise CannotGiveBackError("a variable of another shape", SHAPE)
        variable.assign(tf.constant(array, variable.dtype))

    def build(self, content: Value, decode: Decode) -> Any:
        return tf.Variable(numbers(decode(content)))


class Tensor(Kind):
    """An eager tensor, which never changes."""

    tag = "tensor"
    in_place = False
    arrays = True

    def content(self, thing: Any, encode: Encode) -> Value:
        array = thing.numpy()
        if thing.dtype == tf.string:
            return array_as_value(np.asarray(array, dtype=object))
        return NumberArray().content(np.asarray(array), encode)

    def array(self, thing: Any) -> Any:
        """A copy of the value of the variable or tensor."""
        return np.array(thing.numpy())

    def build(self, content: Value, decode: Decode) -> Any:
        return tf.constant(numbers(decode(content)) if content[0] == "large" else value_as_array(content))


class Table(Kind):
    """A mutable TensorFlow hash table."""

    tag = "table"

    def content(self, thing: Any, encode: Encode) -> Value:
        keys, found = thing.export()
        return tuple(array_as_value(tensor.numpy()) for tensor in (keys, found))

    def give_back(self, thing: Any, content: Value, decode: Decode) -> None:
        before, held = thing.export()
        keys, found = (
            tf.constant(admit_texts(value_as_array(each), decode, Among((before, held)))) for each in content
        )
        if keys.dtype != thing.key_dtype or found.dtype != thing.value_dtype:
            raise CannotGiveBackError("a table of other types")
        thing.remove(before)
        thing.insert(keys, found)


class Queue(Kind):
    """A TensorFlow queue. Its size is visible, its content is not."""

    tag = "queue"

    def content(self, thing: Any, encode: Encode) -> Value:
        return int(thing.size())


def array_as_value(array: Any) -> Value:
    if array.dtype.kind == "O":
        return ("objects", tuple(array.shape), *array.reshape(-1).tolist())
    return ("numbers", values.text_of(array.dtype), tuple(array.shape), array.tobytes())


def value_as_array(value: Value) -> Any:
    if value[0] == "objects":
        made = empty_objects(value[1], len(value) - 2)
        made.reshape(-1)[:] = value[2:]
        return made
    return np.frombuffer(value[3], values.dtype_of(value[1])).reshape(value[2]).copy()


def admit_texts(array: Any, decode: Decode, *old: Any) -> Any:
    """Return the array if a checkpoint may choose its texts.

    Args:
        old: the values currently in its place.
    """
    for text in texts_in(array):
        decode(text, *old)
    return array


def empty_objects(shape: Value, size: int) -> Any:
    """An array for `size` objects; raises CannotGiveBackError if the shape does not match."""
    if not all(type(each) is int and each >= 0 for each in shape) or math.prod(shape) != size:
        raise CannotGiveBackError("an array of another shape", SHAPE)
    return np.empty(tuple(shape), dtype=object)


def numbers(thing: Any) -> Any:
    """Return an array of numbers or text; raises CannotGiveBackError for anything else."""
    if type(thing) is not np.ndarray or thing.dtype.hasobject:
        raise CannotGiveBackError("not an array")
    return thing


def _tensorflow_variable(thing: Any) -> Any:
    return thing if isinstance(thing, tf.Variable) else thing.value
