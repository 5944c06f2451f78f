"""Reads the GPU architectures that a library holds code for from its fat binaries, for wheels that no longer name them.

A fat binary is a header of 16 bytes (magic, version, size of the header, size of what follows) and entries: kind (1:
PTX, 2: machine code), size of the entry's header at byte 4, of its content at byte 8, architecture at byte 28. NVIDIA
documents the container only through its tools (fatbinary, cuobjdump). Read this way, the wheels of 2.17 and 2.21 hold
what their build_info.py says, and machine code for 9.0.
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

from oomph.doctor.observe.elf import mapped, section

_MAGIC = b"\x50\xed\x55\xba"
_HEADER, _ENTRY = struct.Struct("<IHHQ"), struct.Struct("<HHIQ")
_ARCHITECTURE_AT = 28
_ENOUGH = 200
"""Files of one compilation have the same architectures, and there are hundreds of them."""


def architectures(path: Path) -> tuple[str, ...]:
    """sm_80 for machine code, compute_90 for PTX; empty when the library holds no code for GPUs."""
    found: set[tuple[int, int]] = set()
    with mapped(path) as data:
        start, end = section(data, b".nv_fatbin")
        for _ in range(_ENOUGH):
            start = data.find(_MAGIC, start, end)
            if start < 0:
                break
            _, _, size, content = _HEADER.unpack_from(data, start)
            found |= _entries(data, start + size, min(start + size + content, end))
            start += size + content
    ordered = sorted(found, key=lambda each: (each[1], -each[0]))
    return tuple(f"{'compute' if kind == 1 else 'sm'}_{number}" for kind, number in ordered)


def _entries(data: mmap.mmap, start: int, end: int) -> set[tuple[int, int]]:
    found: set[tuple[int, int]] = set()
    while start + _ARCHITECTURE_AT + 4 <= end:
        kind, _, header, content = _ENTRY.unpack_from(data, start)
        if kind in (1, 2):
            found.add((kind, struct.unpack_from("<I", data, start + _ARCHITECTURE_AT)[0]))
        if header + content == 0:
            break
        start += header + content
    return found
