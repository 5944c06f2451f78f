"""Finds the libraries that TensorFlow will load, and for each the file that the loader chooses and its version."""

from __future__ import annotations

import os.path
import platform
import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from oomph.doctor.observe.elf import problem_of
from oomph.doctor.snapshot import Candidate, Library, Packages, TensorFlow
from oomph.files.opening import read_regular

_SONAMES: Mapping[int, Mapping[str, str]] = {
    11: {
        "cudart": "libcudart.so.11.0",
        "cublas": "libcublas.so.11",
        "cublasLt": "libcublasLt.so.11",
        "cufft": "libcufft.so.10",
        "cusolver": "libcusolver.so.11",
        "cusparse": "libcusparse.so.11",
    },
    12: {
        "cudart": "libcudart.so.12",
        "cublas": "libcublas.so.12",
        "cublasLt": "libcublasLt.so.12",
        "cufft": "libcufft.so.11",
        "cusolver": "libcusolver.so.11",
        "cusparse": "libcusparse.so.12",
    },
}
"""The library names that TensorFlow passes to dlopen, by CUDA major version (tsl/platform/default/dso_loader.cc)."""
_OPTIONAL = {11: ("libnccl.so.2",), 12: ("libnccl.so.2", "libcupti.so.12")}
DRIVER_LIBRARIES = ("libcuda.so.1", "libnvidia-ml.so.1")
WHEELS = {
    "libcudart": "cuda-runtime",
    "libcublas": "cublas",
    "libcublasLt": "cublas",
    "libcufft": "cufft",
    "libcusolver": "cusolver",
    "libcusparse": "cusparse",
    "libcudnn": "cudnn",
    "libnccl": "nccl",
    "libcupti": "cuda-cupti",
}
"""The stem of the wheel that contains each library: "cublas" for nvidia-cublas-cu12."""
_SUFFIX = re.compile(r"\.so\.(\d+(?:\.\d+)+)\Z")


def sonames(tensorflow: TensorFlow) -> list[tuple[str, bool]]:
    """Return the names of the libraries that this TensorFlow loads, each with True if it is required to use a GPU."""
    major = tensorflow.cuda_version[0] if tensorflow.cuda_version else 0
    if major not in _SONAMES or tensorflow.cuda is False:
        return []
    cudnn = tensorflow.cudnn_version[0] if tensorflow.cudnn_version else (8 if major == 11 else 9)
    required = [*_SONAMES[major].values(), f"libcudnn.so.{cudnn}"]
    return [*((name, True) for name in required), *((name, False) for name in _OPTIONAL[major])]


def search_path(
    tensorflow: TensorFlow | None, path: Iterable[str], environ: Mapping[str, str], root: Path = Path("/")
) -> SearchPath:
    """Return the loader's search path."""
    return SearchPath(
        ld_library_path=split_path(environ.get("LD_LIBRARY_PATH")),
        runpath=tensorflow.runpath if tensorflow else (),
        cache=read_cache(root),
        wheels=wheel_folders(tuple(path)),
        root=root,
        machine=platform.machine(),
    )


def observe_libraries(tensorflow: TensorFlow | None, packages: Packages, search: SearchPath) -> tuple[Library, ...]:
    """Return all relevant libraries with their candidates."""
    wanted = [*((name, True) for name in DRIVER_LIBRARIES), *(sonames(tensorflow) if tensorflow else ())]
    return tuple(_with_versions(search.find(name, required), packages) for name, required in wanted)


def with_version(library: Library, versions: Mapping[str, str]) -> Library:
    """Return the library, updated with the versions that its files reported."""
    known = tuple(replace(c, version=versions.get(c.path, c.version)) for c in library.candidates)
    return replace(library, candidates=known)


def _with_versions(library: Library, packages: Packages) -> Library:
    known = tuple(replace(c, version=_version(library.soname, c, packages)) for c in library.candidates)
    return replace(library, candidates=known)


def _version(soname: str, candidate: Candidate, packages: Packages) -> str:
    """Return the version from the metadata of the file's wheel, or else from the file name with all links resolved."""
    wheel = f"nvidia-{WHEELS.get(soname.split('.')[0], '?')}-cu"
    if "/nvidia/" in candidate.path:
        site = candidate.path.rpartition("/nvidia/")[0]
        for package in packages.found:
            if package.name.startswith(wheel) and package.folder == site:
                return package.version
    found = _SUFFIX.search(os.path.realpath(candidate.path))
    return found[1] if found else ""


# -- where the loader looks -------------------------------------------------------------------------------------------

_MAGIC = b"glibc-ld.so.cache1.1"
_ENTRY = struct.Struct("<iIIIQ")
_HEADER_BYTES = 48
_MOST_BYTES, _MOST_PATH_BYTES = 1 << 26, 4096
_DEFAULTS = ("lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu", "lib64", "usr/lib64", "lib", "usr/lib")


@dataclass(frozen=True)
class SearchPath:
    """The locations that the loader searches, in order."""

    ld_library_path: tuple[str, ...]
    runpath: tuple[str, ...]
    cache: Mapping[str, tuple[str, ...]]
    """The files for each library name, as recorded by ldconfig."""
    wheels: tuple[str, ...]
    """The folders of nvidia-* wheels, which the loader searches only if they are in the RUNPATH."""
    root: Path = Path("/")
    machine: str = "x86_64"

    def find(self, soname: str, required: bool) -> Library:
        """Find all files with this name, in search order."""
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
    """Split LD_LIBRARY_PATH into its entries. An empty entry means the working directory."""
    if not value:
        return ()
    return tuple(entry or "." for entry in value.replace(";", ":").split(":"))


def wheel_folders(path: Sequence[str]) -> tuple[str, ...]:
    """Return the folders `nvidia/*/lib` (including `nvidia/cu13/lib`, used by CUDA 13) in every folder on sys.path."""
    found = [str(folder) for entry in path if entry for folder in sorted(Path(entry).glob("nvidia/*/lib"))]
    return tuple(dict.fromkeys(found))


def read_cache(root: Path = Path("/")) -> dict[str, tuple[str, ...]]:
    """Read the files for each library name from ld.so.cache, in the format since glibc 2.2; empty without glibc."""
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
            break  # the file is truncated
        _, key, value, _, _ = _ENTRY.unpack_from(data, offset)
        found.setdefault(_text(data, base + key), []).append(_text(data, base + value))
    return {name: tuple(paths) for name, paths in found.items()}


def _text(data: bytes, start: int) -> str:
    return data[start : start + _MOST_PATH_BYTES].split(b"\0", 1)[0].decode(errors="replace")
