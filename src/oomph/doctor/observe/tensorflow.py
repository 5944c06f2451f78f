"""Observes what the installed TensorFlow was built for and where it looks for CUDA libraries, without importing it."""

from __future__ import annotations

import ast
import mmap
import re
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from oomph.doctor.observe.elf import mapped, names_in, read_elf, section
from oomph.doctor.releases import release_of
from oomph.doctor.snapshot import Package, Packages, TensorFlow, numbers_in
from oomph.files.opening import read_regular

DISTRIBUTIONS = (
    "tensorflow",
    "tf-nightly",
    "tensorflow-cpu",
    "tensorflow-gpu",
    "tensorflow-rocm",
    "tensorflow-intel",
    "intel-tensorflow",
    "tensorflow-macos",
)
"""The distributions that contain the package `tensorflow`."""
_LIBRARIES = ("libtensorflow_framework.so.2", "libtensorflow_framework.so.1")
_BIG = ("libtensorflow_cc.so.2", *_LIBRARIES, "python/_pywrap_tensorflow_internal.so")
_MOST_BYTES = 1 << 20
_FLAG = re.compile(r"--(xla_[a-z0-9_]+)")


def observe_tensorflow(packages: Packages, environ: Mapping[str, str]) -> TensorFlow | None:
    """Observe the TensorFlow that an import would find, or return None if there is none."""
    package = next((each for name in DISTRIBUTIONS if (each := packages.get(name))), None)
    if package is None:
        return None
    folder = Path(package.folder) / "tensorflow"
    facts = _build_info(folder)
    found = TensorFlow(package.version, package.name, str(folder))
    release = release_of(found.numbers)
    cuda_version = numbers_in(str(facts.get("cuda_version") or ""))
    capabilities = tuple(facts.get("cuda_compute_capabilities") or ())
    source = "build_info.py" if cuda_version else "unknown"
    cuda = facts.get("is_cuda_build")
    if release is not None and not cuda_version and cuda is not False:
        cuda_version, capabilities, source = release.cuda, release.capabilities, "the release table"
    elif not cuda_version and cuda is not False:
        cuda_version, capabilities = _pinned(package, "nvidia-cuda-runtime-cu"), _in_library(folder)
        source = "its requirements and its code" if cuda_version else "unknown"
    loader, runpath = _loader(folder)
    return TensorFlow(
        version=package.version,
        distribution=package.name,
        folder=str(folder),
        cuda=cuda,
        rocm=bool(facts.get("is_rocm_build")),
        cuda_version=cuda_version,
        cudnn_version=release.cudnn if release and cuda is not False else _pinned(package, "nvidia-cudnn-cu"),
        capabilities=capabilities,
        source=source,
        loader=loader,
        runpath=runpath,
        unknown_flags=_unknown_flags(folder, environ.get("XLA_FLAGS", "")),
    )


def _build_info(folder: Path) -> dict[str, Any]:
    """Return the items in build_info.py, an OrderedDict of pairs or, in later versions, a dict with fewer items."""
    try:
        tree = ast.parse(read_regular(folder / "python/platform/build_info.py", _MOST_BYTES).decode())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):  # the last two if nested too deeply
        return {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call | ast.Dict):
            value = node.value
            literal = value.args[0] if isinstance(value, ast.Call) and value.args else value
            try:
                return dict(ast.literal_eval(literal))
            except (ValueError, TypeError, RecursionError, MemoryError):
                continue
    return {}


def _pinned(package: Package, wheel: str) -> tuple[int, ...]:
    """Return the major and minor versions of the oldest such wheel that TensorFlow's requirements allow."""
    for line in package.requires:
        found = re.search(r"(?:>=|==)\s*(\d+)\.(\d+)", line) if line.startswith(wheel) else None
        if found:
            return int(found[1]), int(found[2])
    return ()


def _in_library(folder: Path) -> tuple[str, ...]:
    """Return the architectures that the library itself contains code for."""
    for library in _BIG:
        try:
            return architectures(folder / library)
        except (OSError, ValueError):
            continue
    return ()


def _loader(folder: Path) -> tuple[str, tuple[str, ...]]:
    """Return the CUDA-loading library and its RUNPATH. Conda keeps the library in the environment's lib folder."""
    for place in (folder, *folder.parents[2:3]):
        for name in _LIBRARIES:
            try:
                return str(place / name), read_elf(place / name).runpath
            except (OSError, ValueError):
                continue
    return "", ()


def _unknown_flags(folder: Path, flags: str) -> tuple[str, ...]:
    """Return the flags in XLA_FLAGS that this TensorFlow does not know, which make XLA abort the process."""
    names = tuple(dict.fromkeys(_FLAG.findall(flags)))
    if not names:
        return ()
    known: set[str] = set()
    read = False
    for library in _BIG:
        try:
            known |= names_in(folder / library, names)
            read = True
        except (OSError, ValueError):
            continue
    return tuple(name for name in names if name not in known) if read else ()


_FATBIN_MAGIC = b"\x50\xed\x55\xba"
_FATBIN_HEADER, _FATBIN_ENTRY = struct.Struct("<IHHQ"), struct.Struct("<HHIQ")
_ARCHITECTURE_AT = 28
_ENOUGH = 200
"""The number of fat binaries to examine. All those from the same compilation have the same architectures."""


def architectures(path: Path) -> tuple[str, ...]:
    """Return a library's architectures (sm_80 for machine code, compute_90 for PTX); empty if it has no code for GPUs.

    A fat binary consists of a 16-byte header (magic, version, size of the header, size of the rest) and entries. Each
    entry has its kind (1 for PTX, 2 for machine code) at byte 0, the size of its header at byte 4, the size of its
    content at byte 8, and its architecture at byte 28. NVIDIA documents the format only through its tools (fatbinary,
    cuobjdump). Read this way, the 2.17 and 2.21 wheels contain what their build_info.py lists, and machine code for
    9.0.
    """
    found: set[tuple[int, int]] = set()
    with mapped(path) as data:
        start, end = section(data, b".nv_fatbin")
        for _ in range(_ENOUGH):
            start = data.find(_FATBIN_MAGIC, start, end)
            if start < 0:
                break
            _, _, size, content = _FATBIN_HEADER.unpack_from(data, start)
            found |= _entries(data, start + size, min(start + size + content, end))
            start += size + content
    ordered = sorted(found, key=lambda each: (each[1], -each[0]))
    return tuple(f"{'compute' if kind == 1 else 'sm'}_{number}" for kind, number in ordered)


def _entries(data: mmap.mmap, start: int, end: int) -> set[tuple[int, int]]:
    found: set[tuple[int, int]] = set()
    while start + _ARCHITECTURE_AT + 4 <= end:
        kind, _, header, content = _FATBIN_ENTRY.unpack_from(data, start)
        if kind in (1, 2):
            found.add((kind, struct.unpack_from("<I", data, start + _ARCHITECTURE_AT)[0]))
        if header + content == 0:
            break
        start += header + content
    return found
