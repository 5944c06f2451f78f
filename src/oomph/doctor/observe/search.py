"""Finds the file that the dynamic loader takes for a library loaded by name, and why. No library is loaded.

The order is that of ld.so(8) for dlopen() from an object with DT_RUNPATH: LD_LIBRARY_PATH, DT_RUNPATH,
/etc/ld.so.cache, the default folders. Folders for processor levels (glibc-hwcaps) are skipped: no CUDA library ships in
one.
"""

from __future__ import annotations

import os.path
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from oomph.doctor.observe.elf import problem_of
from oomph.doctor.snapshot import Candidate, Library
from oomph.files.regular_file import read_regular

_MAGIC = b"glibc-ld.so.cache1.1"
_ENTRY = struct.Struct("<iIIIQ")
_HEADER_BYTES = 48
_MOST_BYTES, _MOST_PATH_BYTES = 1 << 26, 4096
_DEFAULTS = ("lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu", "lib64", "usr/lib64", "lib", "usr/lib")


@dataclass(frozen=True)
class SearchPath:
    """The places the loader searches, in order."""

    ld_library_path: tuple[str, ...]
    runpath: tuple[str, ...]
    cache: Mapping[str, tuple[str, ...]]
    """Library name → files, as ldconfig has recorded them."""
    wheels: tuple[str, ...]
    """Folders of nvidia-* wheels: the loader looks there only if the RUNPATH says so."""
    root: Path = Path("/")
    machine: str = "x86_64"

    def find(self, soname: str, required: bool) -> Library:
        """Every file with that name, the winner first."""
        found: dict[str, Candidate] = {}
        for path, where, folder in self._places(soname):
            if os.path.lexists(path) and path not in found:
                found[path] = Candidate(path, where, folder, problem_of(Path(path), self.machine))
        return Library(soname, required, tuple(found.values()))

    def _places(self, soname: str) -> Iterator[tuple[str, str, str]]:
        for folder in self.ld_library_path:
            yield os.path.join(folder, soname), "LD_LIBRARY_PATH", folder
        for folder in self.runpath:
            yield os.path.join(folder, soname), "RUNPATH", folder
        for path in self.cache.get(soname, ()):
            yield path, "ld.so.cache", os.path.dirname(path)
        for name in _DEFAULTS:
            folder = str(self.root / name)
            yield os.path.join(folder, soname), "default folder", folder
        for folder in self.wheels:
            yield os.path.join(folder, soname), "wheel", folder


def split_path(value: str | None) -> tuple[str, ...]:
    """The entries of LD_LIBRARY_PATH; an empty one stands for the working directory."""
    if not value:
        return ()
    return tuple(entry or "." for entry in value.replace(";", ":").split(":"))


def wheel_folders(path: Sequence[str]) -> tuple[str, ...]:
    """`nvidia/*/lib` (and CUDA 13's `nvidia/cu13/lib`) of every folder on sys.path."""
    found = [str(folder) for entry in path if entry for folder in sorted(Path(entry).glob("nvidia/*/lib"))]
    return tuple(dict.fromkeys(found))


def read_cache(root: Path = Path("/")) -> dict[str, tuple[str, ...]]:
    """Library name → files, from ld.so.cache in the format that glibc has written since 2.2; empty without glibc."""
    try:
        data = read_regular(root / "etc/ld.so.cache", _MOST_BYTES)
    except OSError:
        return {}
    base = data.find(_MAGIC)
    if base < 0 or base + _HEADER_BYTES > len(data):
        return {}
    count = struct.unpack_from("<I", data, base + len(_MAGIC))[0]
    found: dict[str, list[str]] = {}
    for number in range(count):
        offset = base + _HEADER_BYTES + number * _ENTRY.size
        if offset + _ENTRY.size > len(data):
            break  # cut off
        _, key, value, _, _ = _ENTRY.unpack_from(data, offset)
        found.setdefault(_text(data, base + key), []).append(_text(data, base + value))
    return {name: tuple(paths) for name, paths in found.items()}


def _text(data: bytes, start: int) -> str:
    return data[start : start + _MOST_PATH_BYTES].split(b"\0", 1)[0].decode(errors="replace")
