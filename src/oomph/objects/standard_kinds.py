"""Standard-library objects implemented in C, whose attributes do not reveal their contents, and open files."""

from __future__ import annotations

import array
import io
import os
import stat
from collections.abc import Iterator
from typing import Any

import numpy as np

from oomph.keras_bridge import fingerprints
from oomph.objects.arrays import Large
from oomph.objects.kind import NOTHING, CannotGiveBackError, Decode, Encode, Kind, Part, TypeNamed
from oomph.objects.values import Value
from oomph.protocol.reason_table import OPEN_FILE
from oomph.script.restorable import may_be_restored

_MOST_BYTES = 16 << 20
_NUMBERS = "<>=@!|0123456789xcbB?hHiIlLqQnNefdgsu"
"""The characters in a buffer format (PEP 3118) that stand for numbers and bytes, but not for pointers and objects."""


class Buffer(Kind):
    """A `StringIO` or `BytesIO`: its contents and position."""

    tag = "buffer"

    def content(self, thing: Any, encode: Encode) -> Value:
        return ("closed",) if thing.closed else (type(thing).__name__, thing.getvalue(), thing.tell())

    def give_back(self, thing: Any, content: Value, decode: Decode) -> None:
        if content == ("closed",):
            thing.close()
            return
        _, value, position = content
        if type(value) is not type(thing.getvalue()) or type(position) is not int or not 0 <= position <= len(value):
            raise CannotGiveBackError("the state of a different buffer")
        value = decode(value, thing.getvalue())
        thing.seek(0)
        thing.truncate(0)
        thing.write(value)
        thing.seek(position)

    def shell(self, content: Value, type_named: TypeNamed) -> Any:
        return {"StringIO": io.StringIO, "BytesIO": io.BytesIO}[content[0]]()


_OF_CHARACTERS = "bBuw"
"""The type codes of arrays that may contain text."""


class Numbers(Kind):
    """An `array.array`."""

    tag = "numbers"

    def content(self, thing: Any, encode: Encode) -> Value:
        return (thing.typecode, thing.tobytes())

    def give_back(self, thing: Any, content: Value, decode: Decode) -> None:
        if thing.typecode != content[0] or type(content[1]) is not bytes or len(content[1]) % thing.itemsize:
            raise CannotGiveBackError("an array of a different type")
        new = decode(content[1], thing.tobytes()) if thing.typecode in _OF_CHARACTERS else content[1]
        del thing[:]
        thing.frombytes(new)

    def shell(self, content: Value, type_named: TypeNamed) -> Any:
        return array.array(content[0])


class Memory(Kind):
    """Bytes that Python shares with other code: a `ctypes` object, an `mmap`, a `memoryview`."""

    tag = "memory"

    def content(self, thing: Any, encode: Encode) -> Value:
        held = np.frombuffer(thing, np.uint8)
        if _holds_addresses(thing):
            return ("addresses", fingerprints.of_array(held))
        return ("large memory", fingerprints.of_array(held)) if held.nbytes > _MOST_BYTES else held.tobytes()

    def give_back(self, thing: Any, content: Value, decode: Decode) -> None:
        if _holds_addresses(thing):
            raise CannotGiveBackError(type(thing).__name__)
        held = np.frombuffer(thing, np.uint8)
        if type(content) is not bytes or len(content) != held.nbytes or not held.flags.writeable:
            raise CannotGiveBackError(type(thing).__name__)
        held[:] = np.frombuffer(decode(content, held.tobytes()), np.uint8)


class ContextValue(Kind):
    """A `contextvars.ContextVar`: its value in this thread."""

    tag = "context value"

    def parts(self, thing: Any) -> Iterator[Part]:
        value = thing.get(None)  # it may not be set yet
        return iter([] if value is None else [(".value", value)])

    def content(self, thing: Any, encode: Encode) -> Value:
        return encode(thing.get(None))

    def give_back(self, thing: Any, content: Value, decode: Decode) -> None:
        thing.set(decode(content, thing.get(NOTHING)))


class ThreadLocal(Kind):
    """A `threading.local`: its attributes in this thread."""

    tag = "thread local"

    def parts(self, thing: Any) -> Iterator[Part]:
        yield "", thing.__dict__


class SharedMemory(Kind):
    """A `multiprocessing.Value` or `Array`: memory protected by a lock."""

    tag = "shared"

    def parts(self, thing: Any) -> Iterator[Part]:
        yield ".get_obj()", thing.get_obj()

    def content(self, thing: Any, encode: Encode) -> Value:
        return (encode(thing.get_obj()),)

    def give_back(self, thing: Any, content: Value, decode: Decode) -> None:
        decode(content[0])  # restored as a separate node


class Digest(Kind):
    """A `hashlib` hash: a change can be detected but not undone."""

    tag = "digest"

    def content(self, thing: Any, encode: Encode) -> Value:
        return (thing.name, thing.copy().hexdigest(*([16] if thing.name.startswith("shake") else [])))


class Database(Kind):
    """A `sqlite3` connection or cursor. An in-memory database is lost with its process."""

    tag = "database"

    def content(self, thing: Any, encode: Encode) -> Value:
        connection = getattr(thing, "connection", thing)  # a cursor has a connection
        files = [row[2] for row in connection.execute("pragma database_list")]
        return None if all(files) else ("in memory", connection.total_changes)


def _holds_addresses(thing: Any) -> bool:
    """True if the memory contains addresses, which are invalid elsewhere and must not come from a checkpoint."""
    return not set(memoryview(thing).format) <= set(_NUMBERS)


MEMORY = ("_ctypes._SimpleCData", "_ctypes.Array", "_ctypes.Structure", "mmap.mmap", "builtins.memoryview")
SHARED = ("multiprocessing.sharedctypes.SynchronizedBase",)
DIGESTS = ("_hashlib.HASH", "_hashlib.HASHXOF", "_blake2.blake2b", "_blake2.blake2s", "_md5.md5", "_sha1.sha1")
DATABASES = ("sqlite3.Connection", "sqlite3.Cursor")
"""The names of database classes, since not every Python is built with them."""


FILES = (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom, io.BufferedReader, io.FileIO)
_LARGEST_FILE = 4 << 20
_STANDARD_STREAMS = 2


class OpenFile(Kind):
    """The contents of a file opened for writing, or the position in a file opened only for reading."""

    tag = "open file"
    arrays = True

    def content(self, thing: Any, encode: Encode) -> Value:
        if thing.closed:
            return ("closed",)
        if not _is_regular(thing):
            return None
        if not thing.writable():
            return ("at", thing.tell())
        thing.flush()
        size = os.fstat(thing.fileno()).st_size
        if size > _LARGEST_FILE:
            return ("of bytes", size)
        found = self.array(thing)
        return ("large", *Large(fingerprints.of_array(found), "|u1", found.shape))

    def array(self, thing: Any) -> Any:
        """Return the contents of the file as uint8 [N]."""
        fd = os.open(f"/proc/self/fd/{thing.fileno()}", os.O_RDONLY)
        with open(fd, "rb") as file:
            return np.frombuffer(file.read(), np.uint8)

    def give_back(self, thing: Any, content: Value, decode: Decode) -> None:
        match content:
            case None:
                pass
            case ("closed",):
                thing.close()
            case ("at", int() as position):
                thing.seek(position)
            case ("large", *_):
                _rewrite(thing, decode(content).tobytes())
            case _:
                raise CannotGiveBackError("a large open file", OPEN_FILE)


def _rewrite(thing: Any, content: bytes) -> None:
    if not may_be_restored(os.readlink(f"/proc/self/fd/{thing.fileno()}")):
        raise CannotGiveBackError("an open file that may not be restored")
    thing.flush()
    thing.seek(0)
    thing.truncate(0)
    raw = thing.buffer if isinstance(thing, io.TextIOWrapper) else thing
    raw.write(content)
    raw.flush()
    thing.seek(0, os.SEEK_END)


def _is_regular(thing: Any) -> bool:
    fd = thing.fileno()
    return fd > _STANDARD_STREAMS and stat.S_ISREG(os.fstat(fd).st_mode)
