"""Snapshot part: what is installed, what TensorFlow was built for, and the files that its loader would take."""

from __future__ import annotations

import re
from dataclasses import dataclass

_WHEEL_FOLDER = re.compile(r"/nvidia/[^/]+/lib\Z")


@dataclass(frozen=True)
class Package:
    """A distribution, as its metadata has it."""

    name: str
    version: str
    folder: str
    """The folder on sys.path that holds the distribution."""
    problem: str = ""
    """The sign of a broken installation: "no METADATA", "no RECORD", "tensorflow/__init__.py is gone"; else
    empty."""
    requires: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    """The tags of its wheel: cp311-cp311-manylinux_2_27_x86_64."""


@dataclass(frozen=True)
class Packages:
    """The distributions that matter to TensorFlow on a GPU."""

    found: tuple[Package, ...] = ()
    leftovers: tuple[str, ...] = ()
    """Folders that an interrupted pip has left behind: ~ensorflow."""

    def get(self, name: str) -> Package | None:
        """The package that an import would find: the first on sys.path."""
        return next((package for package in self.found if package.name == name), None)


@dataclass(frozen=True)
class TensorFlow:
    """The installed TensorFlow and its build targets, from its wheel or else a table of releases."""

    version: str
    distribution: str
    folder: str
    """The package's folder: .../site-packages/tensorflow."""
    cuda: bool | None = None
    """True if the package was built for CUDA; None: unknown."""
    rocm: bool = False
    cuda_version: tuple[int, ...] = ()
    cudnn_version: tuple[int, ...] = ()
    """The major and minor version TensorFlow compares with the loaded cuDNN's."""
    capabilities: tuple[str, ...] = ()
    """The architectures it has code for. sm_80: machine code; compute_90: PTX, and for most kernels machine code
    too."""
    source: str = "unknown"
    """The source of these facts: "build_info.py", "the table of releases" or "unknown"."""
    loader: str = ""
    """The library that loads CUDA's, libtensorflow_framework.so.2; empty if it was not found."""
    runpath: tuple[str, ...] = ()
    """The folders that library searches after LD_LIBRARY_PATH."""
    unknown_flags: tuple[str, ...] = ()
    """The names in XLA_FLAGS that this build does not know."""

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of the version: (2, 21, 0) for "2.21.0rc1"."""
        return _numbers(self.version)


@dataclass(frozen=True)
class Candidate:
    """A file that the loader could take for a library."""

    path: str
    where: str
    """The way it was found: "LD_LIBRARY_PATH", "RUNPATH", "ld.so.cache", "default folder", "wheel"."""
    folder: str
    """The entry of the search path that led to the file."""
    problem: str = ""
    """The reason the loader cannot take it: "broken link", "not an ELF file", "made for another machine"."""
    version: str = ""
    """The version, from the file's wheel, its name or the library itself; empty if unknown."""


@dataclass(frozen=True)
class Library:
    """A library that TensorFlow loads by name, and the files with that name."""

    soname: str
    required: bool
    candidates: tuple[Candidate, ...] = ()
    """In the loader's search order; wheel copies that it never searches come last."""

    @property
    def winner(self) -> Candidate | None:
        """The file that will be loaded; None when the loader finds none."""
        return next((c for c in self.candidates if c.where != "wheel" and not c.problem), None)

    @property
    def in_wheels(self) -> tuple[Candidate, ...]:
        """The usable copies in wheel folders, whether or not the loader looks there."""
        return tuple(c for c in self.candidates if _WHEEL_FOLDER.search(c.folder) and not c.problem)


@dataclass(frozen=True)
class Toolchain:
    """Tools and files XLA may need to compile for a GPU."""

    ptxas: str = ""
    libdevice: str = ""
    data_dir: str = ""
    """The folder that XLA_FLAGS names with --xla_gpu_cuda_data_dir."""
    data_dir_exists: bool = True


def _numbers(version: str) -> tuple[int, ...]:
    """The leading numbers of a version: (2, 22, 0) for 2.22.0rc0."""
    numbers = []
    for part in version.split(".")[:3]:
        digits = ""
        for letter in part:
            if not letter.isdigit():
                break
            digits += letter
        if not digits:
            break
        numbers.append(int(digits))
        if digits != part:
            break
    return tuple(numbers)
