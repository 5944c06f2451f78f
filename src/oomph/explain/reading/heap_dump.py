"""Reads the map of an allocator's memory that TensorFlow writes when it runs out (TF_BFC_MEMORY_DUMP=<prefix>).

The file `<prefix>_<allocator>.<microseconds>` is a serialized `tensorflow.MemoryDump`; only the few fields that are
needed are decoded. Source: tensorflow/core/protobuf/bfc_memory_map.proto; protobuf's encoding guide.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

from oomph.explain.evidence.evidence import Evidence
from oomph.explain.evidence.memory import MAP_SOURCE, write_size
from oomph.files.regular_file import read_regular

LARGEST_FILE = 64 << 20
_NAME, _CHUNK, _STATS = 1, 3, 5
_SIZE, _OP_NAME, _IN_USE = 2, 5, 8
_PEAK = 3
_MOST_USERS = 5
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

Value: TypeAlias = "int | bytes"


def looks_like_one(data: bytes) -> bool:
    """True if these bytes begin as a memory dump does: with the name of an allocator."""
    length = data[1] if len(data) > 2 and data[0] == (_NAME << 3 | _BYTES) else 0
    name = data[2 : 2 + length]
    return 2 < length < 100 and len(name) == length and b"bfc" in name and name.isascii()


def read_dump(path: Path) -> Evidence:
    """The fact that the allocator ran out, with its figures. ValueError: not such a file. OSError: not readable."""
    if path.stat().st_size > LARGEST_FILE:
        raise ValueError(f"{path.name} is too large for a memory map")
    return describe(read_regular(path), path.name)


def describe(data: bytes, origin: str = "") -> Evidence:
    """The fact that the allocator ran out, with its figures, from the bytes of the file."""
    name, peak, free, users = "", 0, [0], Counter[str]()
    for field, value in _fields(data):
        if field == _NAME and isinstance(value, bytes):
            name = value.decode("ascii", "replace")
        elif field == _CHUNK and isinstance(value, bytes):
            chunk = dict(_fields(value))
            size, op = chunk.get(_SIZE, 0), chunk.get(_OP_NAME, b"")
            if isinstance(size, int) and isinstance(op, bytes) and chunk.get(_IN_USE):
                users[op.decode("utf-8", "replace") or "?"] += size
            elif isinstance(size, int):
                free.append(size)
        elif field == _STATS and isinstance(value, bytes):
            found = dict(_fields(value)).get(_PEAK, 0)
            peak = found if isinstance(found, int) else 0
    if not name:
        raise ValueError("no allocator is named")
    most = "; ".join(f"{op} {write_size(size)}" for op, size in users.most_common(_MOST_USERS))
    text = (
        f"memory map of {name}: {write_size(sum(users.values()))} in use, at most {write_size(peak)} before; "
        f"free {write_size(sum(free))}, the largest piece {write_size(max(free))}; largest users: {most}"
    )
    return Evidence(MAP_SOURCE, text, origin=origin)


def _fields(data: bytes) -> Iterator[tuple[int, Value]]:
    """The fields of a message, in order. ValueError when it is cut short or not a message at all."""
    place = 0
    while place < len(data):
        tag, place = _varint(data, place)
        kind = tag & 7
        if kind == _VARINT:
            value, place = _varint(data, place)
            yield tag >> 3, value
            continue
        if kind == _BYTES:
            length, place = _varint(data, place)
        elif kind in (_FIXED64, _FIXED32):
            length = 8 if kind == _FIXED64 else 4
        else:
            raise ValueError(f"wire type {kind}")
        if place + length > len(data):
            raise ValueError("cut short")
        yield tag >> 3, data[place : place + length]
        place += length


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if place >= len(data) or shift > 63:
            raise ValueError("cut short")
        byte = data[place]
        value |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if byte < 0x80:
            return value, place
