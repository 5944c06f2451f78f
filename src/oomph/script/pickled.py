"""Tells whether a content would import or call anything if it were unpickled. Nothing is. Standard library only.

A pickle is a program of a small machine that stops at the first byte it does not know. So a text is only one as far as
that byte, and harmless if nothing is imported before. What `pickletools` cannot follow counts as a call.
"""

from __future__ import annotations

import importlib.util
import io
import pickletools
import re
import sys

_OPERATIONS = {operation.code: operation for operation in pickletools.opcodes}
_BY_NAME = ("GLOBAL", "INST")
_OF_THE_STACK = ("STACK_GLOBAL", "NEWOBJ_EX", "BINPERSID")
"""These fail while nothing is on the stack."""
_BY_NUMBER = ("EXT1", "EXT2", "EXT4")
_NUMBER = re.compile(rb"\s*[+-]?(?:[0-9.][0-9a-fA-FxXoObB_.+-]*|inf|infinity|nan)[Ll]?\s*", re.I)
_QUOTED = re.compile(rb"""\s*(['"]).*\1\s*""", re.S)
_PROTOCOL = b"\x80"
_MOST_OPERATIONS = 1 << 20


def may_be_pickled(content: bytes) -> bool:
    """True for every pickle of protocol 2 or later, and for an earlier one that imports something."""
    return content.startswith(_PROTOCOL) or _imports(content)


def _imports(content: bytes) -> bool:
    file = io.BytesIO(content)
    for _ in range(_MOST_OPERATIONS):
        mark = file.read(1)
        operation = _OPERATIONS.get(mark.decode("latin-1"))
        if operation is None or operation.name == "STOP":
            return False
        at = file.tell()
        try:
            argument = None if operation.arg is None else operation.arg.reader(file)
        except Exception:
            return _is_taken(operation.name, content[at:].partition(b"\n")[0])
        if operation.name in _BY_NUMBER or (operation.name in _OF_THE_STACK and at > 1):
            return True
        if operation.name in _BY_NAME:
            return _can_be_imported(str(argument).partition(" ")[0])
    return True  # longer than any text goes on as a pickle


def _is_taken(name: str, line: bytes) -> bool:
    """True if the reader of Python might accept an argument that `pickletools` does not."""
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
    """True if there is such a module. A list of words may begin as the name of one does."""
    top = module.partition(".")[0]
    if not top:
        return False
    try:
        return top in sys.modules or importlib.util.find_spec(top) is not None
    except Exception:
        return True  # a finder of the script's
