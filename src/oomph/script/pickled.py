"""Tells if unpickling a content would import or call anything, without unpickling it. Standard library only.

A pickle is a program for a small machine that stops at the first unknown byte. So a text is a pickle only up to that
byte, and harmless if nothing is imported before it. What `pickletools` cannot follow counts as a call.
"""

from __future__ import annotations

import importlib.util
import io
import pickletools
import re
import sys
from _compat_pickle import IMPORT_MAPPING, NAME_MAPPING
from collections.abc import Iterator
from copyreg import _inverted_registry  # type: ignore[attr-defined]
from itertools import islice

_OPERATIONS = {operation.code: operation for operation in pickletools.opcodes}
_BY_NAME = ("GLOBAL", "INST")
_BY_NUMBER = ("EXT1", "EXT2", "EXT4")
_NUMBER = re.compile(rb"\s*[+-]?(?:[0-9.][0-9a-fA-FxXoObB_.+-]*|inf|infinity|nan)[Ll]?\s*", re.I)
_QUOTED = re.compile(rb"""\s*(['"]).*\1\s*""", re.S)
_FROM_ELSEWHERE = (*_BY_NUMBER, "PERSID", "BINPERSID")
_WORDS = ("SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8")
_TEXTS = (*_WORDS, "UNICODE", "STRING", "BINSTRING", "SHORT_BINSTRING")
"""The operations that push the words for `STACK_GLOBAL`."""
_OF_ARRAYS = ("multiarray _reconstruct", "multiarray scalar", "numeric _frombuffer")
_OF_DATA = frozenset(
    (
        *(f"numpy.{core}.{name}" for core in ("core", "_core") for name in _OF_ARRAYS),
        *("numpy ndarray", "numpy dtype", "collections OrderedDict"),
        *(f"builtins {name}" for name in ("complex", "set", "frozenset", "slice")),
    )
)
"""Names that only make data, whatever the arguments; `bytearray` could fill the memory."""
_FORMER_MODULES = frozenset(IMPORT_MAPPING) | {module for module, _ in NAME_MAPPING}
"""Python 2 module names, such as `__builtin__`, which Python 3 maps to the current ones."""
_PROTOCOL = b"\x80"
_MOST_OPERATIONS = 1 << 20


def may_be_pickled(content: bytes) -> bool:
    """True for every pickle of protocol 2 or later, and for an earlier one that imports something."""
    return content.startswith(_PROTOCOL) or _imports(content)


def calls_something(content: bytes) -> bool:
    """True for a pickle that may import or call more than containers and arrays need."""
    return _imports(content) and not _is_data(content)


def _is_data(content: bytes) -> bool:
    try:
        return _OF_DATA.issuperset(_names_in(content))
    except Exception:
        return False


def _names_in(content: bytes) -> Iterator[str]:
    """Yield a pickle's imports as "module name". Raises ValueError if one is unknown, or if data follow.

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
