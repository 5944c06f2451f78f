"""Values without an identity, as comparable tuples and as JSON: numbers, text, dates, names of types.

A value is an atom, or a tuple whose first item names its kind. Objects that can change have an identity and are not
values: they are referenced by `("ref", key)`. Nothing is ever looked up by name: a short list of types is known here
("type", "builtins:int"), and the code that decodes (`OwnTypes`) resolves enums and named tuples.

Long lists of numbers of the same type become arrays, which take up no more bytes than the numbers and keep their type.
"""

from __future__ import annotations

import base64
import collections
import datetime
import decimal
import enum
import fractions
import math
import pathlib
import re
import sys
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import ModuleType
from typing import Any

import numpy as np
import tensorflow as tf

from oomph.redaction.redaction import holds_known_secret

Value = Any
"""An atom, or a tuple that starts with the name of its kind."""
UNKNOWN = "unknown"
"""The tag for an object that can be neither referenced nor encoded; the object's type name follows."""
SECRET = "a key or password"
"""Replaces the type name of a secret."""
PLAIN = frozenset((bool, int, float, str, type(None)))
_AS_IT_IS = frozenset((bool, str, type(None)))
_LARGE_INT = 1 << 1024
_LONG_BYTES = 512
_DATES = (datetime.datetime, datetime.date, datetime.time)
_BY_TEXT: tuple[type, ...] = (decimal.Decimal, fractions.Fraction, uuid.UUID)
HARMLESS_TYPES = frozenset(
    {
        *(bool, int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset, type(None)),
        *(collections.OrderedDict, collections.defaultdict, collections.Counter, collections.deque),
        *(kind for kind in vars(np).values() if isinstance(kind, type) and issubclass(kind, np.generic)),
    }
)
"""Types that a checkpoint may name, since calling one only creates a value."""
HARMLESS_IDS = frozenset(map(id, HARMLESS_TYPES))
"""The `id`s of `HARMLESS_TYPES`, since a lookup by hash could run a metaclass's code."""
_TYPES_BY_PATH = {f"{kind.__module__}:{kind.__qualname__}": kind for kind in HARMLESS_TYPES}
_DTYPE = re.compile(
    r"[<>|=]?([?biufc]\d{1,2}|[SU]\d{1,9}|[mM]8(\[\d{0,9}[A-Za-zμ]{1,2}\])?)|[a-z]{2,10}\d{0,3}(_[a-z0-9]+)?"
)
"""Matches the dtype names that `text_of` writes. NumPy would parse other text as Python."""
_FRACTION = re.compile(r"-?\d{1,4000}(/\d{1,4000})?")
_PATHS = tuple(kind for kind in vars(pathlib).values() if isinstance(kind, type) and issubclass(kind, pathlib.PurePath))


class CannotEncodeError(TypeError):
    """Raised for a value that neither JSON nor arrays can represent; the message names its type.

    Args:
        trouble: the obstacle, as a key in the table of reasons.
    """

    def __init__(self, text: str, trouble: str = "") -> None:
        super().__init__(text)
        self.trouble = trouble


def is_value(thing: Any) -> bool:
    """True if an object and everything in it is immutable, so that its identity does not matter."""
    kind = type(thing)
    if kind in PLAIN or kind in _VALUES:
        return True
    return issubclass(kind, (np.generic, np.dtype, enum.Enum, tf.DType)) and kind is not np.void


def encode(thing: Any) -> Value:
    """Encode an object as a value. Raises CannotEncodeError if it is not one."""
    kind = type(thing)
    if kind in PLAIN:
        return thing
    encoder = _VALUES.get(kind)
    if encoder is not None:
        return encoder(thing)
    if issubclass(kind, np.generic):
        return ("scalar", text_of(thing.dtype), thing.tobytes())
    if issubclass(kind, enum.Enum):
        return ("member", path_of(kind), thing.name)
    if issubclass(kind, tf.DType):
        return ("dtype", "tf", thing.name)
    if issubclass(kind, np.dtype):
        return ("dtype", "numpy", text_of(thing))
    raise CannotEncodeError(kind.__name__)


def text_of(dtype: Any) -> str:
    """Convert a NumPy dtype to text, including dtypes that only TensorFlow knows, such as bfloat16."""
    return str(dtype.name if dtype.kind == "V" else dtype.str)


def dtype_of(text: str) -> Any:
    """Convert text from `text_of` back to a NumPy dtype. Raises TypeError unless it describes numbers or text."""
    if type(text) is not str or not _DTYPE.fullmatch(text):
        raise TypeError(f"not a dtype: {str(text)[:40]}")
    try:
        found = np.dtype(text)
    except TypeError:
        found = np.dtype(tf.as_dtype(text).as_numpy_dtype)
    if found.hasobject or found.names is not None:
        raise TypeError(f"not a dtype: {text}")
    return found


def unknown_in(value: Value) -> Iterator[str]:
    """Yield the type names of the parts of a value that could not be encoded."""
    if type(value) is tuple:
        if len(value) == 2 and value[0] == UNKNOWN:
            yield str(value[1])
        for each in value:
            yield from unknown_in(each)


def without_secrets(value: Value) -> Value:
    """Replace each string in a value that contains a known secret with UNKNOWN, which a restore leaves unchanged."""
    kind = type(value)
    if kind in (str, bytes):
        return (UNKNOWN, SECRET) if holds_known_secret(value) else value
    if kind is not tuple:
        return value
    found = tuple(map(without_secrets, value))
    if value[:1] in (("text",), ("scalar",)) and found != value:
        return (UNKNOWN, SECRET)
    return found if found != value else value


def secrets_in(value: Value) -> Iterator[str | bytes]:
    """Yield the strings in a value that contain a known secret."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        kind = type(each)
        if kind is tuple:
            waiting += each
        elif (kind is str or kind is bytes) and holds_known_secret(each):
            yield each


def named(thing: Any) -> Value:
    """Encode a type that a checkpoint may name. Raises CannotEncodeError for any other object."""
    if not (issubclass(type(thing), type) and id(thing) in HARMLESS_IDS):
        raise CannotEncodeError(type(thing).__name__)
    return ("type", f"{thing.__module__}:{thing.__qualname__}")


def path_of(kind: type) -> str:
    """Return the path of a class. Raises CannotEncodeError if the path does not lead back to the class."""
    path = f"{kind.__module__}:{kind.__qualname__}"
    if _looked_up(path) is not kind:
        raise CannotEncodeError(kind.__name__)
    return path


def _looked_up(path: str) -> Any:
    """Return the object that "module:name" refers to in this process. Never called with a path from a file."""
    module, _, name = path.partition(":")
    found: Any = sys.modules.get(module)
    for part in name.split(".") if name else ():
        if not isinstance(found, (ModuleType, type)):
            return None
        found = vars(found).get(part)
    return found


def to_json(value: Value, apart: list[bytes] | None = None) -> Any:
    """Encode a value as JSON: tuples become lists, and types that JSON lacks are tagged.

    Args:
        apart: collects long byte strings, which the JSON then refers to by number.
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


def from_json(document: Any, apart: list[bytes | None] | None = None) -> Value:
    """Return the value that `to_json` encoded. Raises ValueError or TypeError if a tag is unknown or invalid.

    Args:
        apart: long byte strings, each of which can be used only once, since copies in many objects would exhaust
            memory.
    """
    if not isinstance(document, list):
        return document
    tag, *rest = document
    if tag == "tuple":
        return tuple(from_json(each, apart) if type(each) is list else each for each in rest)
    if tag == "apart":
        number = rest[0] if len(rest) == 1 and type(rest[0]) is int else -1
        if apart is None or not 0 <= number < len(apart) or apart[number] is None:
            raise ValueError("not a value: its bytes are missing")
        found, apart[number] = apart[number], None
        return found
    decoders: dict[str, Callable[[str], Any]] = {
        "float": float, "int": lambda text: int(text, 16), "bytes": lambda text: base64.b64decode(text, validate=True)
    }  # fmt: skip
    if tag not in decoders or len(rest) != 1:
        raise ValueError(f"not a value: {tag}")
    return decoders[tag](rest[0])


def decode(value: Value) -> Any:
    """Return the value that `encode` encoded. Raises ValueError if this process cannot create it."""
    if type(value) is not tuple:
        return value
    tag, *rest = value
    decoder = _DECODERS.get(tag)
    if decoder is None:
        raise ValueError(f"not a value: {tag}")
    return decoder(*rest)


def _decode_type(path: str) -> Any:
    if path not in _TYPES_BY_PATH:
        raise ValueError(f"{path} is not a type that a checkpoint may refer to")
    return _TYPES_BY_PATH[path]


def member_of(kind: type, name: str) -> Any:
    """Return the enum member with this name. Raises ValueError if there is none."""
    members = vars(kind).get("_member_map_") if issubclass(kind, enum.Enum) else None
    if type(members) is not dict or name not in members:
        raise ValueError(f"{kind.__name__} has no {name}")
    return members[name]


def _decode_fraction(text: str) -> Any:
    if not _FRACTION.fullmatch(text):  # an exponent would be expanded
        raise ValueError("not a fraction")
    return fractions.Fraction(text)


def _decode_text(kind: str, text: str) -> Any:
    known: dict[str, Callable[[str], Any]] = {each.__name__: each for each in (*_BY_TEXT, *_PATHS)}
    return (known | {"Fraction": _decode_fraction})[kind](text)


def _decode_date(kind: str, text: str) -> Any:
    return {each.__name__: each for each in _DATES}[kind].fromisoformat(text)


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
    "complex": lambda real, imag: complex(float(real), float(imag)),
    "range": range,
    "slice": slice,
    "...": lambda: ...,
    "NotImplemented": lambda: NotImplemented,
    "timedelta": lambda days, seconds, micro: datetime.timedelta(days, seconds, micro),
    "shape": lambda *sizes: tf.TensorShape(None if sizes == ("?",) else list(sizes)),
    "date": _decode_date,
    "text": _decode_text,
    "scalar": lambda dtype, data: np.frombuffer(data, dtype_of(dtype))[0],
    "dtype": lambda of, name: tf.as_dtype(name) if of == "tf" else dtype_of(name),
    "type": _decode_type,
}


_LONG = 32


def number_array(items: Sequence[Any]) -> Any:
    """Convert a long list of numbers of the same type to an array; return None if that is impossible."""
    kinds = set(map(type, items)) if len(items) >= _LONG else set()
    kind: Any = kinds.pop() if len(kinds) == 1 else None
    if kind is float:
        return np.array(items, np.float64)
    if kind is int:
        try:
            return np.array(items, np.int64)
        except OverflowError:
            return None
    is_number = kind is not None and issubclass(kind, np.generic) and is_of_tensorflow(items[0].dtype)
    return np.array(items, items[0].dtype) if is_number else None


def is_of_tensorflow(dtype: Any) -> bool:
    """True if a dtype is a numeric TensorFlow dtype in this machine's byte order."""
    if dtype.kind in "OSUMm" or not dtype.isnative:
        return False
    try:
        return bool(tf.as_dtype(dtype.name).as_numpy_dtype == dtype)
    except TypeError:
        return False


def encoded_numbers(items: Sequence[Any]) -> Value:
    """Encode a long list of numbers of the same type as a value; return None for any other list."""
    array = number_array(items)
    if array is None:
        return None
    return ("scalars" if isinstance(items[0], np.generic) else "numbers", text_of(array.dtype), array.tobytes())


def decoded_numbers(value: Value) -> list[Any] | None:
    """Return the list that `encoded_numbers` encoded, or None for anything else. Raises TypeError for text."""
    if (
        type(value) is not tuple
        or len(value) != 3
        or value[0] not in ("scalars", "numbers")
        or type(value[2]) is not bytes
    ):
        return None
    kind = dtype_of(value[1])
    if not is_of_tensorflow(kind):  # the items of this list are not admitted one by one
        raise TypeError(f"not a numeric dtype: {value[1]}")
    array = np.frombuffer(value[2], kind)
    return list(array) if value[0] == "scalars" else list(array.tolist())


def are_values(items: Iterable[Any]) -> bool:
    """True if none of the items has an identity, so that none needs to be walked."""
    kinds = set(map(type, items)) - PLAIN
    return all(issubclass(kind, np.generic) and kind is not np.void for kind in kinds)
