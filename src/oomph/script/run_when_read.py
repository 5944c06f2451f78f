"""Whether the content of a file runs something when it is read: a pickle in any of its wrappings, or a program.

`numpy.load`, `joblib.load`, `torch.load` and `pandas.read_pickle` find the pickle by the content, not by the name. Only
the beginnings are looked at, and nothing is loaded. Standard library only.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import Any

_HEAD = 1 << 16
_MOST_MEMBERS = 10_000
_PROGRAMS = (b"#!", b"\x7fELF")
_PICKLES = tuple(b"\x80" + bytes([protocol]) for protocol in range(2, 6))
"""How a pickle begins, by its protocol. Those before 2 have no such mark."""
_NUMPY, _ZIP = b"\x93NUMPY", b"PK"
_OBJECTS = re.compile(rb"['\"][<>|=]?O\d*['\"]")
"""The type of objects in the header of an array."""
_COMPRESSED: tuple[tuple[bytes, Callable[[Any], Any]], ...] = (
    (b"\x1f\x8b", lambda file: gzip.GzipFile(fileobj=file)),
    (b"BZh", bz2.BZ2File),
    (b"\xfd7zXZ\x00", lzma.LZMAFile),
    (b"\x5d\x00\x00", lzma.LZMAFile),
    (b"\x78", lambda file: io.BytesIO(zlib.decompressobj().decompress(file.read(), _HEAD))),
)
_NAMES = ("GLOBAL", "INST", "STACK_GLOBAL")
_CALLS = ("REDUCE", "INST", "OBJ", "NEWOBJ", "NEWOBJ_EX", "BUILD")
_NAME = re.compile(r"[A-Za-z_][\w.]* [A-Za-z_][\w.]*")


def is_run_when_read(content: bytes) -> bool:
    """True for a program, and for pickled objects, also within an array, an archive or a compressed file."""
    return any(_is_run(head) for head in _beginnings(content))


def _beginnings(content: bytes) -> Iterator[bytes]:
    """The beginning of the content, of what it was compressed from, and of the files that an archive holds."""
    yield content[:_HEAD]
    for mark, opened in _COMPRESSED:
        if content.startswith(mark):
            try:
                yield opened(io.BytesIO(content)).read(_HEAD)
            except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError):
                continue
    if zipfile.is_zipfile(io.BytesIO(content)):
        yield from _members(content)


def _members(content: bytes) -> Iterator[bytes]:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for member in archive.infolist()[:_MOST_MEMBERS]:
                with archive.open(member) as file:
                    yield file.read(_HEAD)
    except Exception:
        yield _PICKLES[0]  # nobody can tell what else would find in it


def _is_run(head: bytes) -> bool:
    if head.startswith((*_PROGRAMS, *_PICKLES)):
        return True
    if head.startswith(_NUMPY):
        return _OBJECTS.search(head) is not None
    return _calls_by_name(head)


def _calls_by_name(head: bytes) -> bool:
    """True for a pickle of protocol 0 or 1 that calls what it names. A list of words may begin like one."""
    import pickletools

    named = marked = False
    try:
        for operation, argument, _ in pickletools.genops(head):
            is_name = operation.name in _NAMES
            if is_name and isinstance(argument, str) and not _NAME.fullmatch(argument):
                return False
            if operation.name == "INST" and not marked:
                return False  # a word in a list of them
            marked = marked or operation.name == "MARK"
            named = named or is_name
            if named and operation.name in _CALLS:
                return True
    except Exception:
        return False  # it ends, or is none
    return False
