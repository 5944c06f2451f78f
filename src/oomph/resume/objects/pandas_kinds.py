"""pandas tables, in which callbacks collect results. Only the script imports pandas."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from oomph.keras_bridge import fingerprints
from oomph.resume.objects.arrays import array_as_value, value_as_array
from oomph.resume.objects.kind import CannotGiveBackError, Decode, Encode, Kind
from oomph.resume.objects.named_texts import Among
from oomph.resume.objects.values import PLAIN, Value

CLASSES = (
    *("pandas.DataFrame", "pandas.Series"),
    *("pandas.core.frame.DataFrame", "pandas.core.series.Series"),
)
_MOST_BYTES = 16 << 20
"""Tables of more bytes are only fingerprinted: a change is detected, but cannot be undone."""
_DTYPES = (
    *("boolean", "string", "str", "Float32", "Float64"),
    *(f"{sign}Int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)),
)
_NAN = ("nan",)


class PandasFrame(Kind):
    """A `DataFrame` or a `Series`: its index, the names of its columns and their values."""

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
        thing._update_inplace(made)  # as pandas' own methods with inplace=True do

    def build(self, content: Value, decode: Decode) -> Any:
        made = _made(str(content[0]), content)
        for text in _texts_of(made):
            decode(text)
        return made


def _texts_of(thing: Any) -> set[str]:
    """The texts in its columns, index and column names."""
    columns, names = _columns_of(thing)
    series = [each for each in (*columns, thing.index, names) if not _is_of_numbers(each)]
    return {item for each in series for item in each.astype(object) if type(item) is str}


def _is_of_numbers(column: Any) -> bool:
    return isinstance(column.dtype, np.dtype) and column.dtype.kind != "O"


def _columns_of(thing: Any) -> tuple[list[Any], Any]:
    """The columns, and the index of their names; a Series has one."""
    if thing.ndim == 1:
        return [thing], sys.modules["pandas"].Index([thing.name], dtype=object)
    return [thing.iloc[:, number] for number in range(thing.shape[1])], thing.columns


def _index(index: Any) -> Value:
    if type(index).__name__ == "RangeIndex":
        return ("range", index.start, index.stop, index.step, index.name)
    return ("index", index.name if type(index.name) in PLAIN else str(index.name), _values(index))


def _values(column: Any) -> Value:
    """The values of a column or an index."""
    dtype = column.dtype
    if isinstance(dtype, np.dtype) and dtype.kind != "O":
        return array_as_value(np.asarray(column))
    items = list(column.astype(object))
    if str(dtype) == "category" or not PLAIN.issuperset(map(type, items)):
        return ("text", repr(items))
    return ("items", str(dtype), *(_NAN if item != item else item for item in items))


def _fingerprint(column: Any) -> Value:
    """The fingerprint of a numeric column; text in such a table is assumed constant."""
    return fingerprints.of_array(np.asarray(column)) if _is_of_numbers(column) else None


def _made(name: str, content: Value) -> Any:
    """A new table with this content; raises CannotGiveBackError."""
    pandas = sys.modules.get("pandas")
    if pandas is None or content[0] == "large frame" or name not in ("DataFrame", "Series"):
        raise CannotGiveBackError("a table of pandas")
    _, index, names, *columns = content
    found = [_column(pandas, each) for each in columns]
    made_index, made_names = _made_index(pandas, index), _made_index(pandas, names)
    if any(np.shape(each) != (len(made_index),) for each in found) or (name == "Series" and len(found) != 1):
        raise CannotGiveBackError("a table of pandas whose columns are not as long as its index")
    if name == "Series":
        return pandas.Series(found[0], index=made_index, name=made_names[0])
    made = pandas.DataFrame(dict(enumerate(found)), index=range(len(made_index)))
    made.index, made.columns = made_index, made_names
    return made


def _column(pandas: Any, value: Value) -> Any:
    if value[0] == "items":
        if value[1] not in ("object", *_DTYPES):
            raise CannotGiveBackError("a table of pandas that holds something else")
        return pandas.array(_items(value[2:]), dtype=value[1]) if value[1] != "object" else _objects(value[2:])
    if value[0] == "text":
        raise CannotGiveBackError("a table of pandas that holds objects")
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
