"""Reads the machine type and library search path of an ELF file, without loading it.

Sources: the ELF-64 object file format, and ld.so(8) for the search order.
"""

from __future__ import annotations

import mmap
import os.path
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from oomph.files.opening import open_regular

_MACHINES = {"x86_64": 62, "amd64": 62, "aarch64": 183, "arm64": 183}
_LOAD, _DYNAMIC = 1, 2
_STRTAB, _RPATH, _RUNPATH = 5, 15, 29
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_PROGRAM = struct.Struct("<IIQQQQQQ")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_ENTRY = struct.Struct("<qQ")
_MOST_BYTES = 1 << 34
"""The maximum size of a file to map, in bytes. TensorFlow's libraries are a tenth of this size, but a sparse file may
claim any size."""
_MOST_DYNAMIC_BYTES, _MOST_PATH_BYTES = 1 << 20, 1 << 16


@dataclass(frozen=True)
class Elf:
    """The relevant facts about an ELF file."""

    machine: int
    runpath: tuple[str, ...] = ()
    """The entries of DT_RUNPATH, or of DT_RPATH if there is none, with `$ORIGIN` resolved."""


def problem_of(path: Path, machine: str) -> str:
    """Return the reason why the loader cannot use this file; empty if it can."""
    try:
        with open_regular(path) as file:
            head = file.read(_HEADER.size)
    except FileNotFoundError:
        return "broken link" if path.is_symlink() else "missing"
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    if len(head) < _HEADER.size or head[:4] != b"\x7fELF" or head[5] != 1:
        return "not an ELF file" if head else "an empty file"
    made_for = struct.unpack_from("<H", head, 18)[0]
    wanted = _MACHINES.get(machine.lower())
    if head[4] != 2 or (wanted is not None and made_for != wanted):
        return "built for a different machine"
    return ""


def read_elf(path: Path) -> Elf:
    """Read a 64-bit little-endian ELF file. Raises ValueError for any other file, and OSError if it cannot be read."""
    with mapped(path) as data:
        header = _header(data)
        programs = [_PROGRAM.unpack_from(data, header[5] + i * header[9]) for i in range(header[10])]
        dynamic = dict(reversed(list(_dynamic(data, programs))))  # if a tag occurs twice, the first one counts
        origin = os.path.dirname(os.path.abspath(path))  # the loader does not follow links either
        return Elf(header[2], _runpath(data, programs, dynamic, origin))


def names_in(path: Path, names: tuple[str, ...]) -> set[str]:
    """Return the subset of `names` that occur at the end of a string in the file's read-only data.

    Any text before a name is ignored, because linkers let a string share the end of a longer one.
    """
    with mapped(path) as data:
        start, end = section(data, b".rodata")
        return {name for name in names if data.find(name.encode() + b"\0", start, end) >= 0}


@contextmanager
def mapped(path: Path) -> Iterator[mmap.mmap]:
    """Map a library into memory.

    Raises:
        OSError: if it cannot be read.
        ValueError: if it is damaged, even if this is discovered only in the `with` block.
    """
    with open_regular(path) as file:
        if os.fstat(file.fileno()).st_size > _MOST_BYTES:
            raise ValueError("larger than any library")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            try:
                yield data
            except (struct.error, IndexError, OverflowError) as error:
                raise ValueError(f"a truncated or damaged library: {error}") from error


def _header(data: mmap.mmap) -> tuple[int, ...]:
    if len(data) < _HEADER.size or data[:4] != b"\x7fELF" or data[4] != 2 or data[5] != 1:
        raise ValueError("not a 64-bit little-endian ELF file")
    return _HEADER.unpack_from(data, 0)


def _dynamic(data: mmap.mmap, programs: list[tuple[int, ...]]) -> Iterator[tuple[int, int]]:
    for kind, _, offset, _, _, size, _, _ in programs:
        if kind == _DYNAMIC:
            there = data[offset : offset + min(size, _MOST_DYNAMIC_BYTES)]
            yield from _ENTRY.iter_unpack(there[: len(there) // _ENTRY.size * _ENTRY.size])


def _runpath(data: mmap.mmap, programs: list[tuple[int, ...]], dynamic: dict[int, int], origin: str) -> tuple[str, ...]:
    where = dynamic.get(_RUNPATH, dynamic.get(_RPATH))
    if where is None or _STRTAB not in dynamic:
        return ()
    start = _offset(programs, dynamic[_STRTAB]) + where
    text = data[start : start + _MOST_PATH_BYTES].split(b"\0", 1)[0].decode(errors="replace")
    entries = [entry.replace("$ORIGIN", origin).replace("${ORIGIN}", origin) for entry in text.split(":")]
    return tuple(dict.fromkeys(os.path.normpath(entry) for entry in entries if entry))


def _offset(programs: list[tuple[int, ...]], address: int) -> int:
    for kind, _, offset, start, _, size, _, _ in programs:
        if kind == _LOAD and start <= address < start + size:
            return address - start + offset
    raise ValueError("an address outside all segments")


def section(data: mmap.mmap, name: bytes) -> tuple[int, int]:
    """Return the byte range of a section in an ELF file, or of the whole file if the sections are stripped."""
    header = _header(data)
    sections = [_SECTION.unpack_from(data, header[6] + i * header[11]) for i in range(header[12])]
    if not sections:
        return 0, len(data)
    names = sections[header[13]][4]
    for each in sections:
        if data[names + each[0] : names + each[0] + len(name) + 1] == name + b"\0":
            return each[4], each[4] + each[5]
    return 0, 0
