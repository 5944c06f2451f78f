"""NumPy arrays, TensorFlow variables, tensors and tables, and pandas tables, in which callbacks collect results.

Large contents are represented by a fingerprint. Only the script itself imports pandas.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from oomph.keras_bridge import fingerprints
from oomph.keras_bridge.graph import tensorflow_variable
from oomph.objects import values
from oomph.objects.containers import all_plain
from oomph.objects.kind import CannotGiveBackError, Decode, Encode, Kind, Part, TypeNamed
from oomph.objects.texts import Among, texts_in
from oomph.objects.values import PLAIN, Value
from oomph.protocol.reason_table import SHAPE


class Large(NamedTuple):
    """Represents an array in an object's content; equal fingerprints mean equal arrays."""

    fingerprint: str
    dtype: str
    shape: tuple[int, ...]


class NumberArray(Kind):
    """A NumPy array of numbers."""

    tag = "array"
    arrays = True

    def content(self, thing: Any, encode: Encode) -> Value:
        in_columns = thing.flags.f_contiguous and not thing.flags.c_contiguous  # the order affects sums
        described = Large(fingerprints.of_array(thing), values.text_of(thing.dtype), tuple(thing.shape))
        return ("large", *described, *(["F"] if in_columns else []))

    def array(self, thing: Any) -> Any:
        """Return the array itself."""
        return thing

    def give_back(self, thing: Any, content: Value, decode: Decode) -> None:
        array = numbers(decode(content, thing))
        if thing.shape != array.shape or thing.dtype != array.dtype or not thing.flags.writeable:
            raise CannotGiveBackError("an array of a different shape", SHAPE)
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
            raise CannotGiveBackError("an array of a different shape", SHAPE)
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
        """Return a copy of the variable's value."""
        return np.asarray(tensorflow_variable(thing).numpy())

    def give_back(self, thing: Any, content: Value, decode: Decode) -> None:
        array = numbers(decode(content))
        variable = tensorflow_variable(thing)
        if not variable.shape.is_compatible_with(array.shape):
            raise CannotGiveBackError("a variable of a different shape", SHAPE)
        variable.assign(tf.constant(array, variable.dtype))

    def build(self, content: Value, decode: Decode) -> Any:
        return tf.Variable(numbers(decode(content)))


class Tensor(Kind):
    """An eager tensor, which never changes."""

    tag = "tensor"
    in_place = False
    arrays = True

    def content(self, thing: Any, encode: Encode) -> Value:
        if thing.dtype == tf.string:
            return array_as_value(np.asarray(thing.numpy(), dtype=object))
        return NumberArray().content(self.array(thing), encode)

    def array(self, thing: Any) -> Any:
        """Return the tensor's value, which shares its memory if that is the host's."""
        return np.asarray(thing)

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
            raise CannotGiveBackError("a table of different types")
        thing.remove(before)
        thing.insert(keys, found)


class Queue(Kind):
    """A TensorFlow queue. Its size is visible, but not its contents."""

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
    """Return the array if a checkpoint may choose its text.

    Args:
        old: the values that it would replace.
    """
    for text in texts_in(array):
        decode(text, *old)
    return array


def empty_objects(shape: Value, size: int) -> Any:
    """Create an array for `size` objects. Raises CannotGiveBackError if the shape does not match."""
    if not all(type(each) is int and each >= 0 for each in shape) or math.prod(shape) != size:
        raise CannotGiveBackError("an array of a different shape", SHAPE)
    return np.empty(tuple(shape), dtype=object)


def numbers(thing: Any) -> Any:
    """Return an array of numbers or text unchanged. Raises CannotGiveBackError for anything else."""
    if type(thing) is not np.ndarray or thing.dtype.hasobject:
        raise CannotGiveBackError("not an array")
    return thing


FRAMES = (
    *("pandas.DataFrame", "pandas.Series"),
    *("pandas.core.frame.DataFrame", "pandas.core.series.Series"),
)
_MOST_BYTES = 16 << 20
"""The size, in bytes, above which tables are only fingerprinted: a change is detected, but cannot be undone."""
_DTYPES = (
    *("boolean", "string", "str", "Float32", "Float64"),
    *(f"{sign}Int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)),
)
_NAN = ("nan",)


class PandasFrame(Kind):
    """A `DataFrame` or `Series`: its index, its column names and its values."""

    tag = "frame"

    def content(self, thing: Any, encode: Encode) -> Value:
        columns, names = _columns_of(thing)
        if int(np.sum(thing.memory_usage(index=False))) > _MOST_BYTES:
            return ("large frame", thing.shape, *(_fingerprint(column) for column in columns))
        return (type(thing).__name__, _index(thing.index), _index(names), *map(_values, columns))

    def give_back(self, thing: Any, content: Value, decode: Decode) -> None:
        made, held = _made(type(thing).__name__, content), Among(_texts_of(thing))
        for text in _texts_of(made):
            decode(text, held)
        thing._update_inplace(made)  # like pandas' own methods with inplace=True

    def build(self, content: Value, decode: Decode) -> Any:
        made = _made(str(content[0]), content)
        for text in _texts_of(made):
            decode(text)
        return made


def _texts_of(thing: Any) -> set[str]:
    """Return the strings in a table's columns, index and column names."""
    columns, names = _columns_of(thing)
    series = [each for each in (*columns, thing.index, names) if not _is_of_numbers(each)]
    return {item for each in series for item in each.astype(object) if type(item) is str}


def _is_of_numbers(column: Any) -> bool:
    return isinstance(column.dtype, np.dtype) and column.dtype.kind != "O"


def _columns_of(thing: Any) -> tuple[list[Any], Any]:
    """Return a table's columns, and the index that contains their names; a Series has a single column."""
    if thing.ndim == 1:
        return [thing], sys.modules["pandas"].Index([thing.name], dtype=object)
    return [thing.iloc[:, number] for number in range(thing.shape[1])], thing.columns


def _index(index: Any) -> Value:
    if type(index).__name__ == "RangeIndex":
        return ("range", index.start, index.stop, index.step, index.name)
    return ("index", index.name if type(index.name) in PLAIN else str(index.name), _values(index))


def _values(column: Any) -> Value:
    """Return the values of a column or index in encoded form."""
    dtype = column.dtype
    if isinstance(dtype, np.dtype) and dtype.kind != "O":
        return array_as_value(np.asarray(column))
    items = list(column.astype(object))
    if str(dtype) == "category" or not PLAIN.issuperset(map(type, items)):
        return ("text", repr(items))
    return ("items", str(dtype), *(_NAN if item != item else item for item in items))


def _fingerprint(column: Any) -> Value:
    """Return a numeric column's fingerprint. Text in such a large table is assumed not to change."""
    return fingerprints.of_array(np.asarray(column)) if _is_of_numbers(column) else None


def _made(name: str, content: Value) -> Any:
    """Create a new table with this content. Raises CannotGiveBackError if that is impossible."""
    pandas = sys.modules.get("pandas")
    if pandas is None or content[0] == "large frame" or name not in ("DataFrame", "Series"):
        raise CannotGiveBackError("a pandas table")
    _, index, names, *columns = content
    found = [_column(pandas, each) for each in columns]
    made_index, made_names = _made_index(pandas, index), _made_index(pandas, names)
    if any(np.shape(each) != (len(made_index),) for each in found) or (name == "Series" and len(found) != 1):
        raise CannotGiveBackError("a pandas table whose columns differ in length from its index")
    if name == "Series":
        return pandas.Series(found[0], index=made_index, name=made_names[0])
    made = pandas.DataFrame(dict(enumerate(found)), index=range(len(made_index)))
    made.index, made.columns = made_index, made_names
    return made


def _column(pandas: Any, value: Value) -> Any:
    if value[0] == "items":
        if value[1] not in ("object", *_DTYPES):
            raise CannotGiveBackError("a pandas table with an unknown column type")
        return pandas.array(_items(value[2:]), dtype=value[1]) if value[1] != "object" else _objects(value[2:])
    if value[0] == "text":
        raise CannotGiveBackError("a pandas table that contains objects")
    return value_as_array(value)


def _made_index(pandas: Any, value: Value) -> Any:
    if value[0] == "range":
        return pandas.RangeIndex(value[1], value[2], value[3], name=value[4])
    return pandas.Index(_column(pandas, value[2]), name=value[1])


def _items(items: Sequence[Value]) -> list[Any]:
    return [np.nan if item == _NAN else item for item in items]


def _objects(items: Sequence[Value]) -> Any:
    made: Any = np.empty(len(items), dtype=object)
    made[:] = _items(items)
    return made
