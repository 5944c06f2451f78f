"""Snapshot: what a machine is like for TensorFlow, as frozen values. It is kept in the journal of every run.

Snapshot
 ├── python         Python            the Python that runs the script
 ├── host           Host              system, container, memory, disk, PCI, kernel modules, /dev
 ├── packages       Packages          the distributions that matter, as their metadata has them
 ├── tensorflow     TensorFlow        what its wheel was built for, and where it looks for libraries
 ├── libraries      (Library, ...)    what TensorFlow will load, which file wins, and why
 ├── toolchain      Toolchain         ptxas and libdevice, for XLA
 ├── driver         Driver            libcuda's answers, from a child process
 ├── nvml           Nvml              NVML's answers, from another one
 └── environment    variables that change what TensorFlow or CUDA do

A part that could not be looked at keeps its defaults, and `unread` says why.
"""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from typing import Any

SCHEMA = 1


@dataclass(frozen=True)
class Python:
    """The Python that runs the script."""

    executable: str = ""
    version: tuple[int, int, int] = (0, 0, 0)
    implementation: str = "cpython"
    prefix: str = ""
    base_prefix: str = ""
    path: tuple[str, ...] = ()
    """Its sys.path: where it finds packages."""
    tag: str = ""
    """The tag of wheels made for it: cp311."""
    pip: bool = True
    uv: bool = False
    """Whether `uv` is on PATH, for environments that have no pip."""
    moved_from: str = ""
    """Where this virtual environment was made, when that is not where it is now."""

    @property
    def version_text(self) -> str:
        """3.11.2."""
        return ".".join(map(str, self.version))


@dataclass(frozen=True)
class PciDevice:
    """A display or compute controller on the PCI bus."""

    address: str
    vendor: str
    """Vendor in hexadecimal: 10de is NVIDIA, 1002 is AMD."""
    device: str


@dataclass(frozen=True)
class Node:
    """A device file that CUDA needs."""

    path: str
    readable: bool
    owner: str = ""
    """user:group mode, as `ls -l` has them."""


@dataclass(frozen=True)
class Host:
    """The machine, and the container around us."""

    system: str = ""
    machine: str = ""
    release: str = ""
    libc: str = ""
    """"glibc 2.36", "musl" or empty."""
    wsl: bool = False
    container: str = ""
    """"docker", "podman", "kubernetes", "apptainer", "lxc", "container" or empty."""
    memory_bytes: int | None = None
    memory_limit_bytes: int | None = None
    """The limit of the control group; None when there is none."""
    shm_bytes: int | None = None
    disk_path: str = ""
    disk_free_bytes: int | None = None
    cache_path: str = ""
    """Where the driver keeps kernels that it has compiled from PTX."""
    cache_writable: bool = True
    pci: tuple[PciDevice, ...] = ()
    nodes: tuple[Node, ...] = ()
    kernel_driver: str = ""
    """Version of the NVIDIA kernel module that is loaded."""
    modules: tuple[str, ...] = ()
    """Of the kernel modules that matter, those that are loaded."""


@dataclass(frozen=True)
class Package:
    """A distribution, as its metadata has it."""

    name: str
    version: str
    folder: str
    """The folder of sys.path that it lies in."""
    problem: str = ""
    """"no METADATA", "no RECORD", "tensorflow/__init__.py is gone": half-installed or half-uninstalled."""
    requires: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    """The tags of its wheel: cp311-cp311-manylinux_2_27_x86_64."""


@dataclass(frozen=True)
class Packages:
    """The distributions that matter to TensorFlow on a GPU."""

    found: tuple[Package, ...] = ()
    leftovers: tuple[str, ...] = ()
    """Folders that an interrupted pip has left: ~ensorflow."""

    def get(self, name: str) -> Package | None:
        """The one that an import would find: the first on sys.path."""
        return next((package for package in self.found if package.name == name), None)


@dataclass(frozen=True)
class TensorFlow:
    """What the installed TensorFlow was built for. Where its wheel does not say, a table of releases does."""

    version: str
    distribution: str
    folder: str
    """The package's folder: .../site-packages/tensorflow."""
    cuda: bool | None = None
    """Built for CUDA; None: unknown."""
    rocm: bool = False
    cuda_version: tuple[int, ...] = ()
    cudnn_version: tuple[int, ...] = ()
    """What TensorFlow compares the loaded cuDNN with: major and minor."""
    capabilities: tuple[str, ...] = ()
    """sm_80: machine code; compute_90: PTX, and for most kernels machine code too."""
    source: str = "unknown"
    """"build_info.py", "the table of releases" or "unknown"."""
    loader: str = ""
    """The library that loads CUDA's, libtensorflow_framework.so.2; empty where it was not found."""
    runpath: tuple[str, ...] = ()
    """Where that library looks, after LD_LIBRARY_PATH."""
    unknown_flags: tuple[str, ...] = ()
    """Of the names in XLA_FLAGS, those that this build does not have."""

    @property
    def numbers(self) -> tuple[int, ...]:
        """(2, 21, 0) of "2.21.0rc1"."""
        return _numbers(self.version)


@dataclass(frozen=True)
class Candidate:
    """A file that the loader could take for a library."""

    path: str
    where: str
    """Why it is looked at: "LD_LIBRARY_PATH", "RUNPATH", "ld.so.cache", "default folder", "wheel"."""
    folder: str
    """The entry of the search path."""
    problem: str = ""
    """Why the loader can not take it: "broken link", "not an ELF file", "made for another machine"."""
    version: str = ""
    """As the file's wheel, its name or the library itself says; empty when nobody does."""


@dataclass(frozen=True)
class Library:
    """A library that TensorFlow loads by name, and the files that bear it."""

    soname: str
    required: bool
    candidates: tuple[Candidate, ...] = ()
    """In the order in which the loader looks; those of wheels that it never looks at come last."""

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
    """What XLA may need to compile for a GPU."""

    ptxas: str = ""
    libdevice: str = ""
    data_dir: str = ""
    """The folder that XLA_FLAGS names with --xla_gpu_cuda_data_dir."""
    data_dir_exists: bool = True


@dataclass(frozen=True)
class CudaDevice:
    """A GPU as libcuda shows it to this environment."""

    index: int
    name: str = ""
    pci: str = ""
    uuid: str = ""
    memory_bytes: int = 0
    major: int | None = None
    minor: int | None = None
    multiprocessors: int | None = None

    @property
    def capability(self) -> tuple[int, int] | None:
        """(8, 6): the compute capability; None when the driver did not say."""
        return None if self.major is None or self.minor is None else (self.major, self.minor)


@dataclass(frozen=True)
class Driver:
    """libcuda's answers."""

    asked: bool = False
    """False when there is no libcuda to ask."""
    path: str = ""
    load_error: str = ""
    cuda_version: int | None = None
    init: int | None = None
    """What cuInit returned; None: it did not return."""
    init_seconds: float | None = None
    devices: tuple[CudaDevice, ...] = ()
    problem: str = ""
    """"no answer within 5 s", "ended by SIGSEGV"."""


@dataclass(frozen=True)
class Process:
    """A process that holds memory of a GPU."""

    pid: int
    memory_bytes: int | None = None
    name: str = ""


@dataclass(frozen=True)
class NvmlDevice:
    """A GPU as NVML shows it: all of the machine, whatever CUDA_VISIBLE_DEVICES says."""

    index: int
    name: str | None = None
    uuid: str | None = None
    pci: str | None = None
    total_bytes: int | None = None
    used_bytes: int | None = None
    free_bytes: int | None = None
    processes: tuple[Process, ...] | None = None
    compute_mode: int | None = None
    persistence: bool | None = None
    mig: bool | None = None
    ecc_uncorrected: int | None = None
    remapped_rows: tuple[int, ...] | None = None
    """Correctable, uncorrectable, pending, failed."""
    retired_pending: bool | None = None
    celsius: int | None = None
    slowdown_celsius: int | None = None
    throttle: int | None = None
    sm_mhz: int | None = None
    sm_mhz_max: int | None = None
    lost: str = ""


@dataclass(frozen=True)
class Nvml:
    """NVML's answers."""

    asked: bool = False
    """False when there is no libnvidia-ml to ask."""
    unavailable: str = ""
    """Why oomph could not ask, whatever TensorFlow can."""
    init: int | None = None
    error: str = ""
    driver: str = ""
    """The driver's version: 550.54.15."""
    cuda_version: int | None = None
    devices: tuple[NvmlDevice, ...] = ()
    problem: str = ""


@dataclass(frozen=True)
class Snapshot:
    """The whole machine at one moment."""

    python: Python = field(default_factory=Python)
    host: Host = field(default_factory=Host)
    packages: Packages = field(default_factory=Packages)
    tensorflow: TensorFlow | None = None
    libraries: tuple[Library, ...] = ()
    toolchain: Toolchain = field(default_factory=Toolchain)
    driver: Driver = field(default_factory=Driver)
    nvml: Nvml = field(default_factory=Nvml)
    environment: Mapping[str, str] = field(default_factory=dict)
    unread: Mapping[str, str] = field(default_factory=dict)
    """Part → why it could not be looked at."""
    seconds: float = 0.0
    """How long it took, cuInit included."""

    def library(self, stem: str) -> Library | None:
        """The library whose name begins so: "libcudnn.so"."""
        return next((library for library in self.libraries if library.soname.startswith(stem)), None)

    @property
    def visible(self) -> tuple[NvmlDevice, ...]:
        """Of the GPUs that NVML shows, those that CUDA shows to this environment; all, where that can not be told."""
        shown = {_place(device.pci) for device in self.driver.devices}
        found = tuple(device for device in self.nvml.devices if _place(device.pci or "") in shown)
        return found or self.nvml.devices

    @property
    def nvidia_hardware(self) -> bool:
        """Whether anything on this machine shows an NVIDIA GPU without the driver's help."""
        host = self.host
        on_bus = any(device.vendor == "10de" for device in host.pci)
        return on_bus or bool(host.nodes) or bool(host.kernel_driver)

    @property
    def gpu_wanted(self) -> bool:
        """Whether questions about GPUs make sense here: there is one, or at least a driver for one."""
        return self.nvidia_hardware or self.driver.asked

    def as_document(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"schema": SCHEMA, **asdict(self)}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Snapshot:
        """The snapshot of a document; raises ValueError when it is none of this schema."""
        if document.get("schema") != SCHEMA:
            raise ValueError("not a snapshot of this schema")
        snapshot: Snapshot = _decode(cls, document)
        return snapshot


_WHEEL_FOLDER = re.compile(r"/nvidia/[^/]+/lib\Z")


def _place(pci: str) -> str:
    """0:01:00.0 of both 0000:01:00.0 (CUDA) and 00000000:01:00.0 (NVML)."""
    return pci.lower().lstrip("0") or pci


def _numbers(version: str) -> tuple[int, ...]:
    """The leading numbers of a version: (2, 22, 0) of 2.22.0rc0."""
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


def _decode(kind: Any, value: Any) -> Any:
    """A value of this type out of plain JSON values: dataclasses, tuples, optionals."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if isinstance(kind, type) and is_dataclass(kind):
        if not isinstance(value, Mapping):
            raise ValueError(f"no {kind} in {type(value).__name__}")
        hints = typing.get_type_hints(kind)
        known = {each.name for each in fields(kind)}
        return kind(**{name: _decode(hints[name], item) for name, item in value.items() if name in known})
    if origin is types.UnionType:
        inner = next(argument for argument in arguments if argument is not types.NoneType)
        return None if value is None else _decode(inner, value)
    if origin is tuple:
        item = arguments[0]
        return tuple(_decode(item, each) for each in value)
    return value
