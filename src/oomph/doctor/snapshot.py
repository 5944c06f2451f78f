"""Snapshot: a machine as TensorFlow finds it, as frozen values. The journal of every run contains one.

Snapshot
 ├── python         Python            the Python that runs the script
 ├── host           Host              system, container, memory, disk, PCI, kernel modules, /dev
 ├── packages       Packages          the distributions that matter, as their metadata describes them
 ├── tensorflow     TensorFlow        what its wheel was built for, and where it looks for libraries
 ├── libraries      (Library, ...)    what TensorFlow will load, which file wins, and why
 ├── toolchain      Toolchain         ptxas and libdevice, for XLA
 ├── driver         Driver            libcuda's answers, from a child process
 ├── nvml           Nvml              NVML's answers, from another one
 └── environment    variables that change what TensorFlow or CUDA do

A part that could not be observed keeps its defaults, and `unread` says why.
"""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from typing import Any


@dataclass(frozen=True)
class Python:
    """The Python that runs the script."""

    executable: str = ""
    version: tuple[int, int, int] = (0, 0, 0)
    implementation: str = "cpython"
    prefix: str = ""
    base_prefix: str = ""
    path: tuple[str, ...] = ()
    """Its sys.path, where it finds packages."""
    tag: str = ""
    """The tag of wheels made for it: cp311."""
    pip: bool = True
    uv: bool = False
    """True if `uv` is on PATH, for environments without pip."""
    moved_from: str = ""
    """The place where this virtual environment was created, if it has moved."""

    @property
    def version_text(self) -> str:
        """The version as text: "3.11.2"."""
        return ".".join(map(str, self.version))


@dataclass(frozen=True)
class PciDevice:
    """A display or compute controller on the PCI bus."""

    address: str
    vendor: str
    """The vendor's number in hexadecimal: 10de for NVIDIA, 1002 for AMD."""
    device: str


@dataclass(frozen=True)
class DeviceNode:
    """A device file that CUDA needs."""

    path: str
    readable: bool
    owner: str = ""
    """The owner and the mode, as `ls -l` shows them: user:group mode."""


@dataclass(frozen=True)
class HostFacts:
    """The machine, and the container around oomph."""

    system: str = ""
    machine: str = ""
    release: str = ""
    libc: str = ""
    """The C library: "glibc 2.36", "musl" or empty."""
    wsl: bool = False
    container: str = ""
    """The kind of container: "docker", "podman", "kubernetes", "apptainer", "lxc", "container"; empty outside one."""
    memory_bytes: int | None = None
    memory_limit_bytes: int | None = None
    """The memory limit of the control group, in bytes; None if there is none."""
    shm_bytes: int | None = None
    disk_path: str = ""
    disk_free_bytes: int | None = None
    cache_path: str = ""
    """The folder with the kernels that the driver has compiled from PTX."""
    cache_writable: bool = True
    pci: tuple[PciDevice, ...] = ()
    nodes: tuple[DeviceNode, ...] = ()
    kernel_driver: str = ""
    """The version of the loaded NVIDIA kernel module; empty if none is loaded."""
    modules: tuple[str, ...] = ()
    """The relevant kernel modules that are loaded."""


_WHEEL_FOLDER = re.compile(r"/nvidia/[^/]+/lib\Z")
_NUMBERS = re.compile(r"\d+(?:\.\d+){0,2}", re.ASCII)


@dataclass(frozen=True)
class Package:
    """A distribution, as described by its metadata."""

    name: str
    version: str
    folder: str
    """The folder on sys.path that contains the distribution."""
    problem: str = ""
    """The sign of a broken installation: "no METADATA", "no RECORD", "tensorflow/__init__.py is gone"; empty
    otherwise."""
    requires: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    """The tags of its wheel: cp311-cp311-manylinux_2_27_x86_64."""


@dataclass(frozen=True)
class Packages:
    """The distributions that matter to TensorFlow on a GPU."""

    found: tuple[Package, ...] = ()
    leftovers: tuple[str, ...] = ()
    """Folders left behind by an interrupted pip: ~ensorflow."""

    def get(self, name: str) -> Package | None:
        """Return the package that an import would find: the first on sys.path."""
        return next((package for package in self.found if package.name == name), None)


@dataclass(frozen=True)
class TensorFlow:
    """The installed TensorFlow and its build targets, from its wheel or a table of releases."""

    version: str
    distribution: str
    folder: str
    """The package's folder: .../site-packages/tensorflow."""
    cuda: bool | None = None
    """True if the package was built for CUDA; None if unknown."""
    rocm: bool = False
    cuda_version: tuple[int, ...] = ()
    cudnn_version: tuple[int, ...] = ()
    """The major and minor version that TensorFlow compares with the loaded cuDNN's."""
    capabilities: tuple[str, ...] = ()
    """The architectures for which it has code: sm_80 is machine code; compute_90 is PTX, and for most kernels also
    machine code."""
    source: str = "unknown"
    """The source of these facts: "build_info.py", "the table of releases" or "unknown"."""
    loader: str = ""
    """The library that loads CUDA's, libtensorflow_framework.so.2; empty if it was not found."""
    runpath: tuple[str, ...] = ()
    """The folders that this library searches after LD_LIBRARY_PATH."""
    unknown_flags: tuple[str, ...] = ()
    """The names in XLA_FLAGS that this build does not know."""

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers in the version: (2, 21, 0) for "2.21.0rc1"."""
        return _numbers(self.version)


@dataclass(frozen=True)
class Candidate:
    """A file that the loader could use for a library."""

    path: str
    where: str
    """The way it was found: "LD_LIBRARY_PATH", "RUNPATH", "ld.so.cache", "default folder", "wheel"."""
    folder: str
    """The entry of the search path that led to the file."""
    problem: str = ""
    """The reason that the loader cannot use it: "broken link", "not an ELF file", "made for another machine"."""
    version: str = ""
    """The version, from the file's wheel, its name or the library itself; empty if unknown."""


@dataclass(frozen=True)
class Library:
    """A library that TensorFlow loads by name, and the files with that name."""

    soname: str
    required: bool
    candidates: tuple[Candidate, ...] = ()
    """The candidates in the loader's search order; wheel copies that it never searches come last."""

    @property
    def winner(self) -> Candidate | None:
        """The file that will be loaded; None if the loader finds none."""
        return next((c for c in self.candidates if c.where != "wheel" and not c.problem), None)

    @property
    def in_wheels(self) -> tuple[Candidate, ...]:
        """The usable copies in wheel folders, whether or not the loader looks there."""
        return tuple(c for c in self.candidates if _WHEEL_FOLDER.search(c.folder) and not c.problem)


@dataclass(frozen=True)
class Toolchain:
    """Tools and files that XLA may need to compile for a GPU."""

    ptxas: str = ""
    libdevice: str = ""
    data_dir: str = ""
    """The folder that XLA_FLAGS names with --xla_gpu_cuda_data_dir."""
    data_dir_exists: bool = True


def numbers_in(version: str) -> tuple[int, ...]:
    """Return the numbers between the dots of a version: (9, 3, 0, 75) for 9.3.0.75."""
    return tuple(int(part) for part in version.split(".") if part.isdigit())


def _numbers(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version: (2, 22, 0) for 2.22.0rc0."""
    found = _NUMBERS.match(version)
    return tuple(map(int, found[0].split("."))) if found else ()


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
        """The compute capability, such as (8, 6); None if the driver did not report it."""
        return None if self.major is None or self.minor is None else (self.major, self.minor)


@dataclass(frozen=True)
class Driver:
    """libcuda's answers."""

    asked: bool = False
    """False if there is no libcuda to query."""
    path: str = ""
    load_error: str = ""
    cuda_version: int | None = None
    init: int | None = None
    """The result of cuInit; None if it did not return."""
    init_seconds: float | None = None
    devices: tuple[CudaDevice, ...] = ()
    problem: str = ""
    """The reason for an incomplete answer: "no answer within 5 s", "ended by SIGSEGV"; empty otherwise."""


@dataclass(frozen=True)
class HoldingProcess:
    """A process that holds GPU memory."""

    pid: int
    memory_bytes: int | None = None
    name: str = ""


@dataclass(frozen=True)
class NvmlDevice:
    """A GPU as NVML shows it. NVML shows all GPUs, whatever CUDA_VISIBLE_DEVICES says."""

    index: int
    name: str | None = None
    uuid: str | None = None
    pci: str | None = None
    total_bytes: int | None = None
    used_bytes: int | None = None
    free_bytes: int | None = None
    processes: tuple[HoldingProcess, ...] | None = None
    compute_mode: int | None = None
    persistence: bool | None = None
    mig: bool | None = None
    ecc_uncorrected: int | None = None
    remapped_rows: tuple[int, ...] | None = None
    """The numbers of rows remapped for correctable and for uncorrectable errors, then 1 if remapping is pending, then 1
    if it failed."""
    retired_pending: bool | None = None
    celsius: int | None = None
    slowdown_celsius: int | None = None
    throttle: int | None = None
    sm_mhz: int | None = None
    sm_mhz_max: int | None = None
    lost: str = ""


@dataclass(frozen=True)
class NvmlAnswers:
    """NVML's answers."""

    asked: bool = False
    """False if there is no libnvidia-ml to query."""
    unavailable: str = ""
    """The reason that oomph could not query it; TensorFlow may still be able to."""
    init: int | None = None
    error: str = ""
    driver: str = ""
    """The driver's version: 550.54.15."""
    cuda_version: int | None = None
    devices: tuple[NvmlDevice, ...] = ()
    problem: str = ""


SCHEMA = 1


@dataclass(frozen=True)
class Snapshot:
    """The whole machine at one moment."""

    python: Python = field(default_factory=Python)
    host: HostFacts = field(default_factory=HostFacts)
    packages: Packages = field(default_factory=Packages)
    tensorflow: TensorFlow | None = None
    libraries: tuple[Library, ...] = ()
    toolchain: Toolchain = field(default_factory=Toolchain)
    driver: Driver = field(default_factory=Driver)
    nvml: NvmlAnswers = field(default_factory=NvmlAnswers)
    environment: Mapping[str, str] = field(default_factory=dict)
    unread: Mapping[str, str] = field(default_factory=dict)
    """The reason that each part of the snapshot named here could not be observed."""
    seconds: float = 0.0
    """The duration of the observation in seconds, cuInit included."""

    def library(self, stem: str) -> Library | None:
        """Return the library whose name starts with `stem`, such as "libcudnn.so"."""
        return next((library for library in self.libraries if library.soname.startswith(stem)), None)

    @property
    def visible(self) -> tuple[NvmlDevice, ...]:
        """The GPUs shown by NVML that CUDA also shows to this environment; all of them if that is unknown."""
        shown = {_place(device.pci) for device in self.driver.devices}
        found = tuple(device for device in self.nvml.devices if _place(device.pci or "") in shown)
        return found or self.nvml.devices

    @property
    def nvidia_hardware(self) -> bool:
        """True if anything on this machine reveals an NVIDIA GPU without the driver's help."""
        host = self.host
        on_bus = any(device.vendor == "10de" for device in host.pci)
        return on_bus or bool(host.nodes) or bool(host.kernel_driver)

    @property
    def gpu_wanted(self) -> bool:
        """True if questions about GPUs make sense here: there is a GPU, or at least a driver for one."""
        return self.nvidia_hardware or self.driver.asked

    @property
    def gpus_hidden(self) -> bool:
        """True if CUDA_VISIBLE_DEVICES hides every GPU."""
        return self.environment.get("CUDA_VISIBLE_DEVICES", "all").strip() in ("", "-1", "NoDevFiles")

    def as_document(self) -> dict[str, Any]:
        """Return the snapshot as plain values for JSON."""
        return {"schema": SCHEMA, **asdict(self)}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Snapshot:
        """Read the snapshot from a document. Raises ValueError if the document has a different schema."""
        if document.get("schema") != SCHEMA:
            raise ValueError("not a snapshot of this schema")
        snapshot: Snapshot = _decode(cls, document)
        return snapshot


def _place(pci: str) -> str:
    """Return the part of a PCI address shared by CUDA and NVML: :01:00.0 for both 0000:01:00.0 and 00000000:01:00.0."""
    return pci.lower().lstrip("0") or pci


def _decode(kind: Any, value: Any) -> Any:
    """Build a frozen value of this type from plain JSON values: dataclasses, tuples, optionals."""
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
