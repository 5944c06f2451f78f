"""Reads NumPy's headers, pickles and Keras model files without running what they name.

NumPy: `numpy.lib.format`, restricted to what it writes for numbers, texts and dates.

A pickle is a program for a small machine that stops at the first unknown byte. So a text acts as a pickle only up to
that byte, and is harmless if nothing is imported before it. What `pickletools` cannot follow counts as a call.

Reading a model imports what its description names, such as the function of a Lambda layer, and HDF5 may contain pickles
and refer to other files. Standard library only: HDF5 is inspected with the h5py that the script has imported.
"""

from __future__ import annotations

import ast
import importlib.util
import io
import json
import math
import pickletools
import re
import sys
from _compat_pickle import IMPORT_MAPPING, NAME_MAPPING
from collections.abc import Iterator
from copyreg import _inverted_registry  # type: ignore[attr-defined]
from itertools import islice
from typing import Any

_MARK = b"\x93NUMPY"
_LENGTH_BYTES = {1: 2, 2: 4, 3: 4}
_MOST = 1 << 20
_PLAIN = re.compile(r"[<>|=](?:([biufcSV])(\d{1,9})|(U)(\d{1,9})|[mM](8)(?:\[\d{0,9}[A-Za-z]{1,7}\])?)")


def follows_arrays(content: bytes) -> bool:
    """True if the content consists only of arrays without objects, one after the other."""
    at = 0
    while at < len(content):
        size = _size(content, at)
        if size is None or size > len(content) - at:
            return False
        at += size
    return at > 0


def _size(content: bytes, at: int) -> int | None:
    """Return the size in bytes of the array at `at`, including its header; None unless it has plain values."""
    start = at + len(_MARK) + 2
    width = _LENGTH_BYTES.get(content[start - 2]) if len(content) > start and content.startswith(_MARK, at) else None
    if width is None:
        return None
    length = int.from_bytes(content[start : start + width], "little")
    header = content[start + width : start + width + length]
    try:
        document = ast.literal_eval(header.decode("utf-8")) if length <= _MOST else None
        return start + width + length - at + _bytes_of(document)
    except Exception:
        return None


def _bytes_of(document: Any) -> int:
    if set(document) != {"descr", "fortran_order", "shape"}:
        raise ValueError(document)
    return _bytes_in(document["descr"]) * _items(document["shape"])


def _bytes_in(kind: Any) -> int:
    """Return the size in bytes of a value of this type; the type is a text such as "<f4", or a list of fields."""
    if isinstance(kind, str):
        found = _PLAIN.fullmatch(kind)
        if found is None:
            raise ValueError(kind)
        return int(found[2] or 0) + 4 * int(found[4] or 0) + int(found[5] or 0)
    if type(kind) is not list:
        raise TypeError(kind)
    return sum(_bytes_in(field[1]) * _items(field[2] if len(field) == 3 else ()) for field in kind)


def _items(shape: Any) -> int:
    if type(shape) is not tuple or not all(type(each) is int and each >= 0 for each in shape):
        raise ValueError(shape)
    return math.prod(shape)


_OPERATIONS = {operation.code: operation for operation in pickletools.opcodes}
_BY_NAME = ("GLOBAL", "INST")
_BY_NUMBER = ("EXT1", "EXT2", "EXT4")
_NUMBER = re.compile(rb"\s*[+-]?(?:[0-9.][0-9a-fA-FxXoObB_.+-]*|inf|infinity|nan)[Ll]?\s*", re.I)
_QUOTED = re.compile(rb"""\s*(['"]).*\1\s*""", re.S)
_FROM_ELSEWHERE = (*_BY_NUMBER, "PERSID", "BINPERSID")
_WORDS = ("SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8")
_TEXTS = (*_WORDS, "UNICODE", "STRING", "BINSTRING", "SHORT_BINSTRING")
"""The operations that push the words for `STACK_GLOBAL`."""
_OF_DATA = frozenset(
    ("collections OrderedDict", *(f"builtins {name}" for name in ("complex", "set", "frozenset", "slice")))
)
"""Names that only create data, regardless of the arguments. `bytearray` could exhaust memory, and NumPy's types accept
arguments that make arrays of any address."""
_FORMER_MODULES = frozenset(IMPORT_MAPPING) | {module for module, _ in NAME_MAPPING}
"""Python 2 module names, such as `__builtin__`, which Python 3 maps to the current ones."""
_PROTOCOL = b"\x80"
_MOST_OPERATIONS = 1 << 20


def may_be_pickled(content: bytes) -> bool:
    """True for every pickle of protocol 2 or later, and for any earlier one that imports something."""
    return content.startswith(_PROTOCOL) or _imports(content)


def calls_something(content: bytes) -> bool:
    """True for a pickle that may import or call more than containers need."""
    return _imports(content) and not _is_data(content)


def _is_data(content: bytes) -> bool:
    try:
        return _OF_DATA.issuperset(_names_in(content))
    except Exception:
        return False


def _names_in(content: bytes) -> Iterator[str]:
    """Yield a pickle's imports as "module name". Raises ValueError if an import is unknown, or if data follow.

    A name from the stack counts only if both of its words were pushed right before.
    """
    words, memo, has_numbers, end = ("", ""), list[str](), False, -1
    for operation, argument, at in islice(pickletools.genops(content), _MOST_OPERATIONS):
        name, end = operation.name, at or 0
        if name in _FROM_ELSEWHERE or (name == "STACK_GLOBAL" and has_numbers):
            raise ValueError(name)
        if name in _BY_NAME:
            yield str(argument)
        elif name == "STACK_GLOBAL":
            yield " ".join(words)
        elif name == "MEMOIZE":
            memo.append(words[1])
        has_numbers = has_numbers or name.endswith("PUT")  # MEMOIZE counts by itself
        if name not in ("MEMOIZE", "FRAME"):
            got = memo[int(str(argument))] if name.endswith("BINGET") and not has_numbers else ""
            words = (words[1], str(argument) if name in _WORDS else got)
    if end != len(content) - 1:
        raise ValueError("more follows")


def _imports(content: bytes) -> bool:
    file, has_text = io.BytesIO(content), False
    for _ in range(_MOST_OPERATIONS):
        mark = file.read(1)
        operation = _OPERATIONS.get(mark.decode("latin-1"))
        if operation is None:
            return False
        at = file.tell()
        try:
            argument = None if operation.arg is None else operation.arg.reader(file)
        except Exception:
            line, end, _ = content[at:].partition(b"\n")
            return bool(end) and _is_taken(operation.name, line)  # without an end, the line is the last
        if operation.name in _BY_NUMBER:
            return argument in _inverted_registry  # else reading ends here
        if (operation.name == "STACK_GLOBAL" and has_text) or (operation.name == "BINPERSID" and at > 1):
            return True
        has_text = has_text or operation.name in _TEXTS
        if operation.name in _BY_NAME:
            return _can_be_imported(str(argument).partition(" ")[0])
    return True  # longer than any text goes on as a pickle


def _is_taken(name: str, line: bytes) -> bool:
    """True if Python's unpickler may accept an argument that `pickletools` rejects."""
    match name:
        case "INT" | "LONG" | "FLOAT" | "GET" | "PUT":
            return _NUMBER.fullmatch(line) is not None
        case "STRING":
            return _QUOTED.fullmatch(line) is not None
        case "GLOBAL" | "INST":
            return _can_be_imported(line.decode("utf-8", "replace"))
        case "UNICODE":
            return True
    return False  # its bytes end before the argument does


def _can_be_imported(module: str) -> bool:
    """True if the module exists; plain text may only look like an import."""
    top = module.partition(".")[0]
    if not top:
        return False
    if module in _FORMER_MODULES:
        return True
    try:
        return top in sys.modules or importlib.util.find_spec(top) is not None
    except Exception:
        return True  # a finder of the script's


HDF5 = b"\x89HDF\r\n\x1a\n"
_CALLING = frozenset(
    ("function", "Lambda", "__lambda__", "__typespec__", "TFSMLayer", "TorchModuleWrapper", "JaxLayer", "FlaxLayer")
) | {"TensorFlowOpLayer", "TFOpLambda", "SlicingOpLambda", "ClassMethod", "InstanceMethod", "InstanceProperty"}
_DESCRIPTIONS = ("model_config", "training_config")
_MOST_OBJECTS, _MOST_TEXTS = 100_000, 10_000
_MOST_BYTES = 1 << 20


def is_plain_document(document: Any) -> bool:
    """True unless the JSON describes a function or a class outside Keras."""
    if isinstance(document, list):
        return all(map(is_plain_document, document))
    if not isinstance(document, dict):
        return True
    name, module = document.get("class_name"), document.get("module")
    if "class_name" in document and not (name not in _CALLING if isinstance(name, str) else False):
        return False
    if "class_name" in document and not (module is None or _is_of_keras(module)):
        return False
    return all(map(is_plain_document, document.values()))


def _is_of_keras(module: Any) -> bool:
    return isinstance(module, str) and (module == "keras" or module.startswith("keras."))


def is_plain_hdf5(content: bytes) -> bool:
    """True for HDF5 without pickles, functions or external data; False if it cannot be inspected."""
    h5py = sys.modules.get("h5py")
    if h5py is None:
        return False
    try:
        with h5py.File(io.BytesIO(content), "r") as file:
            return all(_is_plain(thing, h5py) for thing in _objects(file))
    except Exception:
        return False  # damaged, or a type that this h5py does not know


def _objects(file: Any) -> Iterator[Any]:
    found = [file]
    file.visititems(lambda _, thing: found.append(thing) if len(found) <= _MOST_OBJECTS else True)
    if len(found) > _MOST_OBJECTS:
        raise ValueError("too many objects")
    return iter(found)


def _is_plain(thing: Any, h5py: Any) -> bool:
    if not all(_is_plain_attribute(name, thing.attrs[name]) for name in thing.attrs):
        return False
    if isinstance(thing, h5py.Group):
        return not any(isinstance(thing.get(name, getlink=True), h5py.ExternalLink) for name in thing)
    if not isinstance(thing, h5py.Dataset):
        return True  # a type with a name
    if thing.external or thing.is_virtual or thing.dtype.hasobject:
        return False  # data elsewhere, or of any length: they may be a pickle
    if thing.dtype.kind == "V":
        return False  # its fields may be texts
    return thing.dtype.kind != "S" or (thing.nbytes <= _MOST_BYTES and _are_plain(thing[()]))


def _are_plain(texts: Any) -> bool:
    """True if no item of an array of texts is a pickle."""
    items = texts.ravel().tolist() if hasattr(texts, "ravel") else [texts]
    return len(items) <= _MOST_TEXTS and all(
        isinstance(each, str | bytes) and not may_be_pickled(_as_bytes(each)) for each in items
    )


def _is_plain_attribute(name: str, value: Any) -> bool:
    """False for texts that end with ".", which PyTables unpickles, and models that call something."""
    if name == "PSEUDOATOM":
        return False
    if getattr(value, "shape", None) == ():
        value = value.item() if value.dtype.kind in "OSU" else value.tobytes()
    if getattr(getattr(value, "dtype", None), "kind", "") in ("O", "S", "U", "V"):
        return name not in _DESCRIPTIONS and _are_plain(value)
    if isinstance(value, (str, bytes)):
        text = _as_bytes(value)
        if text.endswith(b".") or may_be_pickled(text):
            return False
        return name not in _DESCRIPTIONS or is_plain_document(json.loads(text))
    return name not in _DESCRIPTIONS


def _as_bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text
