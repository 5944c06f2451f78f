"""Finds the libraries that TensorFlow will load, the file that wins for each, and its version."""

from __future__ import annotations

import os.path
import platform
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from oomph.doctor.observe.search import SearchPath, read_cache, split_path, wheel_folders
from oomph.doctor.snapshot import Candidate, Library, Packages, TensorFlow

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
"""CUDA's major version → the names that TensorFlow passes to dlopen (tsl/platform/default/dso_loader.cc)."""
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
"""Library → the wheel that contains it: nvidia-cublas-cu12."""
_SUFFIX = re.compile(r"\.so\.(\d+(?:\.\d+)+)\Z")


def sonames(tensorflow: TensorFlow) -> list[tuple[str, bool]]:
    """The libraries this TensorFlow loads; True for those without which it uses no GPU."""
    major = tensorflow.cuda_version[0] if tensorflow.cuda_version else 0
    if major not in _SONAMES or tensorflow.cuda is False:
        return []
    cudnn = tensorflow.cudnn_version[0] if tensorflow.cudnn_version else (8 if major == 11 else 9)
    required = [*_SONAMES[major].values(), f"libcudnn.so.{cudnn}"]
    return [*((name, True) for name in required), *((name, False) for name in _OPTIONAL[major])]


def search_path(
    tensorflow: TensorFlow | None, path: Iterable[str], environ: Mapping[str, str], root: Path
) -> SearchPath:
    """The loader's search path."""
    return SearchPath(
        ld_library_path=split_path(environ.get("LD_LIBRARY_PATH")),
        runpath=tensorflow.runpath if tensorflow else (),
        cache=read_cache(root),
        wheels=wheel_folders(tuple(path)),
        root=root,
        machine=platform.machine(),
    )


def observe_libraries(tensorflow: TensorFlow | None, packages: Packages, search: SearchPath) -> tuple[Library, ...]:
    """Every relevant library, with its candidates."""
    wanted = [*((name, True) for name in DRIVER_LIBRARIES), *(sonames(tensorflow) if tensorflow else ())]
    return tuple(_with_versions(search.find(name, required), packages) for name, required in wanted)


def with_version(library: Library, versions: Mapping[str, str]) -> Library:
    """The library with the versions that its files reported, if any."""
    known = tuple(replace(c, version=versions.get(c.path, c.version)) for c in library.candidates)
    return replace(library, candidates=known)


def _with_versions(library: Library, packages: Packages) -> Library:
    known = tuple(replace(c, version=_version(library.soname, c, packages)) for c in library.candidates)
    return replace(library, candidates=known)


def _version(soname: str, candidate: Candidate, packages: Packages) -> str:
    """From the metadata of the wheel that holds it, else from the name of the file behind the links."""
    wheel = f"nvidia-{WHEELS.get(soname.split('.')[0], '?')}-cu"
    if "/nvidia/" in candidate.path:
        site = candidate.path.rpartition("/nvidia/")[0]
        for package in packages.found:
            if package.name.startswith(wheel) and package.folder == site:
                return package.version
    found = _SUFFIX.search(os.path.realpath(candidate.path))
    return found[1] if found else ""
