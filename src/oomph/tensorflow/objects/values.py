"""Values without an identity, as comparable Python tuples and as JSON: numbers, text, dates, names of things.

A value is an atom, or a tuple whose first item names its kind. Objects that can change have an identity and are not
values: they are referenced by `("ref", key)`. A thing is encoded by name ("named", "module:name") only if the name
leads to it, and looked up again when decoded.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import enum
import fractions
import math
import pathlib
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import numpy as np
import tensorflow as tf

Value = Any
"""An atom, or a tuple that begins with the name of its kind."""
UNKNOWN = "unknown"
"""Tag of a thing that can be neither referenced nor encoded; the name of its type follows."""
PLAIN = frozenset((bool, int, float, str, type(None)))
_AS_IT_IS = frozenset((bool, str, type(None)))
_LARGE_INT = 1 << 1024
_LONG_BYTES = 512
_DATES = (datetime.datetime, datetime.date, datetime.time)
_BY_TEXT: tuple[type, ...] = (decimal.Decimal, fractions.Fraction, uuid.UUID)
_PATHS = tuple(kind for kind in vars(pathlib).values() if isinstance(kind, type) and issubclass(kind, pathlib.PurePath))


class CannotEncodeError(TypeError):
    """A value that neither JSON nor arrays can hold; the message names its type."""


def is_value(thing: Any) -> bool:
    """Whether the identity of a thing does not matter: neither it nor anything in it changes."""
    kind = type(thing)
    if kind in PLAIN or kind in _VALUES:
        return True
    return issubclass(kind, (np.generic, np.dtype, enum.Enum, tf.DType)) and kind is not np.void


def encode(thing: Any) -> Value:
    """The thing as a value; raises CannotEncodeError if it is none."""
    kind = type(thing)
    if kind in PLAIN:
        return thing
    encoder = _VALUES.get(kind)
    if encoder is not None:
        return encoder(thing)
    if issubclass(kind, np.generic):
        return ("scalar", text_of(thing.dtype), thing.tobytes())
    if issubclass(kind, enum.Enum):
        return ("member", _path_of(kind), thing.name)
    if issubclass(kind, tf.DType):
        return ("dtype", "tf", thing.name)
    if issubclass(kind, np.dtype):
        return ("dtype", "numpy", text_of(thing))
    raise CannotEncodeError(kind.__name__)


def text_of(dtype: Any) -> str:
    """A NumPy dtype as text, including dtypes that only TensorFlow knows, such as bfloat16."""
    return str(dtype.name if dtype.kind == "V" else dtype.str)


def dtype_of(text: str) -> Any:
    """The NumPy dtype that `text_of` wrote; raises TypeError if there is none."""
    try:
        return np.dtype(text)
    except TypeError:
        return np.dtype(tf.as_dtype(text).as_numpy_dtype)
    except SyntaxError as error:  # NumPy parses a list of dtypes as Python
        raise TypeError(f"no dtype: {text}") from error


def unknown_in(value: Value) -> Iterator[str]:
    """The type names of what in it can be neither referenced nor encoded."""
    if type(value) is tuple:
        if len(value) == 2 and value[0] == UNKNOWN:
            yield str(value[1])
        for each in value:
            yield from unknown_in(each)


def named(thing: Any) -> Value:
    """A function, class or module by its path; raises CannotEncodeError if the path does not lead to it."""
    if type(thing) is ModuleType:
        path = f"{thing.__name__}:"
    else:
        path = f"{getattr(thing, '__module__', None)}:{getattr(thing, '__qualname__', None)}"
    if looked_up(path) is not thing:
        raise CannotEncodeError(f"{type(thing).__name__} that has no name of its own")
    return ("named", path)


def looked_up(path: str) -> Any:
    """What "module:name" names among the modules already imported; None if there is no such thing."""
    module, _, name = path.partition(":")
    found: Any = sys.modules.get(module)
    for part in name.split(".") if name else ():
        if not isinstance(found, (ModuleType, type)):
            return None
        found = vars(found).get(part)
    return found


def to_json(value: Value, apart: list[bytes] | None = None) -> Any:
    """A value as JSON: lists stand for tuples, and what JSON lacks is tagged.

    Args:
        apart: collects long bytes, which the JSON then only refers to.
    """
    kind = type(value)
    if kind is float and not math.isfinite(value):
        return ["float", repr(value)]
    if kind is int and abs(value) >= _LARGE_INT:
        return ["int", hex(value)]
    if kind is bytes:
        if apart is None or len(value) < _LONG_BYTES:
            return ["bytes", base64.b64encode(value).decode()]
        apart.append(value)
        return ["apart", len(apart) - 1]
    if kind is tuple:
        return ["tuple", *(each if type(each) in _AS_IT_IS else to_json(each, apart) for each in value)]
    return value


def from_json(document: Any, apart: Sequence[bytes] = ()) -> Value:
    """The value that `to_json` encoded; raises ValueError for any other document."""
    if not isinstance(document, list):
        return document
    tag, *rest = document
    if tag == "tuple":
        return tuple(from_json(each, apart) if type(each) is list else each for each in rest)
    if tag == "apart":
        if len(rest) != 1 or type(rest[0]) is not int or not 0 <= rest[0] < len(apart):
            raise ValueError("not a value: bytes that are missing")
        return apart[rest[0]]
    decoders: dict[str, Callable[[str], Any]] = {
        "float": float, "int": lambda text: int(text, 16), "bytes": lambda text: base64.b64decode(text, validate=True)
    }  # fmt: skip
    if tag not in decoders or len(rest) != 1:
        raise ValueError(f"not a value: {tag}")
    return decoders[tag](rest[0])


def decode(value: Value) -> Any:
    """What `encode` encoded; raises ValueError if it does not exist here."""
    if type(value) is not tuple:
        return value
    tag, *rest = value
    decoder = _DECODERS.get(tag)
    if decoder is None:
        raise ValueError(f"not a value: {tag}")
    return decoder(*rest)


def _decode_named(path: str) -> Any:
    found = looked_up(path)
    if found is None:
        raise ValueError(f"{path} does not exist")
    return found


def _decode_member(path: str, name: str) -> Any:
    kind = looked_up(path)
    if not (isinstance(kind, type) and issubclass(kind, enum.Enum) and name in kind.__members__):
        raise ValueError(f"{path}.{name} does not exist")
    return kind[name]


def _decode_text(kind: str, text: str) -> Any:
    known = {each.__name__: each for each in (*_BY_TEXT, *_PATHS)}
    return known[kind](text)


def _decode_date(kind: str, text: str) -> Any:
    return {each.__name__: each for each in _DATES}[kind].fromisoformat(text)


def _path_of(kind: type) -> str:
    path = f"{kind.__module__}:{kind.__qualname__}"
    if looked_up(path) is not kind:
        raise CannotEncodeError(kind.__name__)
    return path


_VALUES: dict[type, Callable[[Any], Value]] = {
    bytes: lambda thing: thing,
    complex: lambda thing: ("complex", thing.real, thing.imag),
    range: lambda thing: ("range", thing.start, thing.stop, thing.step),
    slice: lambda thing: ("slice", thing.start, thing.stop, thing.step),
    type(...): lambda thing: ("...",),
    type(NotImplemented): lambda thing: ("NotImplemented",),
    datetime.timedelta: lambda thing: ("timedelta", thing.days, thing.seconds, thing.microseconds),
    tf.TensorShape: lambda thing: ("shape", *(thing.as_list() if thing.rank is not None else ["?"])),
    **{kind: lambda thing: ("date", type(thing).__name__, thing.isoformat()) for kind in _DATES},
    **{kind: lambda thing: ("text", type(thing).__name__, str(thing)) for kind in (*_BY_TEXT, *_PATHS)},
}
_DECODERS: dict[str, Callable[..., Any]] = {
    "complex": complex,
    "range": range,
    "slice": slice,
    "...": lambda: ...,
    "NotImplemented": lambda: NotImplemented,
    "timedelta": lambda days, seconds, micro: datetime.timedelta(days, seconds, micro),
    "shape": lambda *sizes: tf.TensorShape(None if sizes == ("?",) else list(sizes)),
    "date": _decode_date,
    "text": _decode_text,
    "scalar": lambda dtype, data: np.frombuffer(data, dtype_of(dtype))[0],
    "member": _decode_member,
    "dtype": lambda of, name: tf.as_dtype(name) if of == "tf" else dtype_of(name),
    "named": _decode_named,
}
NAMED_TYPES = (FunctionType, BuiltinFunctionType, type, ModuleType)
