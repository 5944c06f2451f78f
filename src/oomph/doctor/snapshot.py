"""Snapshot: frozen values that describe a machine as TensorFlow sees it. The journal of every run contains one.

Snapshot
 ├── python         Python            the Python that runs the script
 ├── host           HostFacts         system, container, memory, disk, PCI, kernel modules, /dev
 ├── packages       Packages          the distributions that matter, as their metadata describes them
 ├── tensorflow     TensorFlow        what its wheel was built for, and where it looks for libraries
 ├── libraries      (Library, ...)    the libraries that TensorFlow will load, which file wins, and why
 ├── toolchain      Toolchain         ptxas and libdevice, for XLA
 ├── driver         Driver            libcuda's answers, from a child process
 ├── nvml           NvmlAnswers       NVML's answers, from a second child process
 └── environment    the variables that affect TensorFlow or CUDA

A part that could not be observed keeps its default values, and `unread` gives the reason.
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
    """The sys.path of this Python, on which it finds packages."""
    tag: str = ""
    """The tag of wheels built for this Python, such as cp311."""
    pip: bool = True
    uv: bool = False
    """True if `uv` is on PATH, which helps in environments without pip."""
    moved_from: str = ""
    """The folder in which this virtual environment was created, if it has been moved."""

    @property
    def version_text(self) -> str:
        """The version as text: "3.11.2"."""
        return ".".join(map(str, self.version))


@dataclass(frozen=True)
class PciDevice:
    """A display or compute controller on the PCI bus."""

    address: str
    vendor: str
    """The vendor ID in hexadecimal: 10de for NVIDIA, 1002 for AMD."""
    device: str


@dataclass(frozen=True)
class DeviceNode:
    """A device file that CUDA needs."""

    path: str
    readable: bool
    owner: str = ""
    """The owner and mode, as "user:group mode", with the mode in the format of `ls -l`."""


@dataclass(frozen=True)
class HostFacts:
    """The machine, and the container that oomph runs in, if any."""

    system: str = ""
    machine: str = ""
    release: str = ""
    libc: str = ""
    """The C library: "glibc 2.36", "musl" or an empty string."""
    wsl: bool = False
    container: str = ""
    """The kind of container: "docker", "podman", "kubernetes", "apptainer", "lxc" or "container"; empty outside a
    container."""
    memory_bytes: int | None = None
    memory_limit_bytes: int | None = None
    """The memory limit of the control group, in bytes, or None if there is none."""
    shm_bytes: int | None = None
    disk_path: str = ""
    disk_free_bytes: int | None = None
    cache_path: str = ""
    """The folder where the driver caches kernels compiled from PTX."""
    cache_writable: bool = True
    pci: tuple[PciDevice, ...] = ()
    nodes: tuple[DeviceNode, ...] = ()
    kernel_driver: str = ""
    """The version of the NVIDIA kernel module; empty if it is not loaded."""
    modules: tuple[str, ...] = ()
    """The loaded kernel modules that are relevant."""


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
    """The sign of a broken installation, such as "no METADATA", "no RECORD" or "tensorflow/__init__.py is gone"; empty
    if there is none."""
    requires: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    """The tags of its wheel, such as cp311-cp311-manylinux_2_27_x86_64."""


@dataclass(frozen=True)
class Packages:
    """The distributions that matter for TensorFlow on a GPU."""

    found: tuple[Package, ...] = ()
    leftovers: tuple[str, ...] = ()
    """The folders left behind by an interrupted pip, such as ~ensorflow."""

    def get(self, name: str) -> Package | None:
        """Return the package that an import would find, which is the first one on sys.path."""
        return next((package for package in self.found if package.name == name), None)


@dataclass(frozen=True)
class TensorFlow:
    """The installed TensorFlow and its build targets, from its wheel or the table of releases."""

    version: str
    distribution: str
    folder: str
    """The folder of the package: .../site-packages/tensorflow."""
    cuda: bool | None = None
    """True if the package was built for CUDA, or None if unknown."""
    rocm: bool = False
    cuda_version: tuple[int, ...] = ()
    cudnn_version: tuple[int, ...] = ()
    """The major and minor versions that TensorFlow compares with those of the loaded cuDNN."""
    capabilities: tuple[str, ...] = ()
    """The architectures for which it contains code. A name such as sm_80 means machine code; compute_90 means PTX and,
    for most kernels, machine code as well."""
    source: str = "unknown"
    """The source of these facts, such as "build_info.py", "the release table" or "unknown"."""
    loader: str = ""
    """The library that loads the CUDA libraries, libtensorflow_framework.so.2; empty if it was not found."""
    runpath: tuple[str, ...] = ()
    """The folders that `loader` searches after LD_LIBRARY_PATH."""
    unknown_flags: tuple[str, ...] = ()
    """The flags in XLA_FLAGS that this build does not know."""

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers in the version: (2, 21, 0) for "2.21.0rc1"."""
        return _numbers(self.version)


@dataclass(frozen=True)
class Candidate:
    """A file that the loader may choose for a library."""

    path: str
    where: str
    """The way the file was found: "LD_LIBRARY_PATH", "RUNPATH", "ld.so.cache", "default folder" or "wheel"."""
    folder: str
    """The entry of the search path that led to the file."""
    problem: str = ""
    """The reason why the loader cannot use it, such as "broken link", "not an ELF file" or "made for another
    machine"."""
    version: str = ""
    """The version, according to the file's wheel, its name or the library itself; empty if unknown."""


@dataclass(frozen=True)
class Library:
    """A library that TensorFlow loads by name, and the files with that name."""

    soname: str
    required: bool
    candidates: tuple[Candidate, ...] = ()
    """The candidates in the loader's search order, followed by copies in wheels that it never searches."""

    @property
    def winner(self) -> Candidate | None:
        """The file that will be loaded, or None if the loader cannot find any."""
        return next((c for c in self.candidates if c.where != "wheel" and not c.problem), None)

    @property
    def in_wheels(self) -> tuple[Candidate, ...]:
        """The usable copies in wheel folders, whether or not the loader searches them."""
        return tuple(c for c in self.candidates if _WHEEL_FOLDER.search(c.folder) and not c.problem)


@dataclass(frozen=True)
class Toolchain:
    """The tools and files that XLA may need to compile for a GPU."""

    ptxas: str = ""
    libdevice: str = ""
    data_dir: str = ""
    """The folder given by --xla_gpu_cuda_data_dir in XLA_FLAGS."""
    data_dir_exists: bool = True


def numbers_in(version: str) -> tuple[int, ...]:
    """Return the numeric parts of a version, such as (9, 3, 0, 75) for 9.3.0.75."""
    return tuple(int(part) for part in version.split(".") if part.isdigit())


def _numbers(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version, such as (2, 22, 0) for 2.22.0rc0."""
    found = _NUMBERS.match(version)
    return tuple(map(int, found[0].split("."))) if found else ()


@dataclass(frozen=True)
class CudaDevice:
    """A GPU that libcuda reports in this environment."""

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
        """The compute capability, such as (8, 6), or None if the driver did not report it."""
        return None if self.major is None or self.minor is None else (self.major, self.minor)


@dataclass(frozen=True)
class Driver:
    """The answers from libcuda."""

    asked: bool = False
    """False if there is no libcuda to query."""
    path: str = ""
    load_error: str = ""
    cuda_version: int | None = None
    init: int | None = None
    """The return code of cuInit, or None if it did not return."""
    init_seconds: float | None = None
    devices: tuple[CudaDevice, ...] = ()
    problem: str = ""
    """The reason for an incomplete answer, such as "no answer within 5 s" or "ended by SIGSEGV"; empty if it is
    complete."""


@dataclass(frozen=True)
class HoldingProcess:
    """A process that holds GPU memory."""

    pid: int
    memory_bytes: int | None = None
    name: str = ""


@dataclass(frozen=True)
class NvmlDevice:
    """A GPU that NVML reports. NVML reports all GPUs, regardless of CUDA_VISIBLE_DEVICES."""

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
    """The number of rows remapped for correctable errors, the number for uncorrectable errors, 1 if remapping is
    pending, and 1 if it failed."""
    retired_pending: bool | None = None
    celsius: int | None = None
    slowdown_celsius: int | None = None
    throttle: int | None = None
    sm_mhz: int | None = None
    sm_mhz_max: int | None = None
    lost: str = ""


@dataclass(frozen=True)
class NvmlAnswers:
    """The answers from NVML."""

    asked: bool = False
    """False if there is no libnvidia-ml to query."""
    unavailable: str = ""
    """The reason why oomph could not query NVML. TensorFlow may still be able to."""
    init: int | None = None
    error: str = ""
    driver: str = ""
    """The driver version, such as 550.54.15."""
    cuda_version: int | None = None
    devices: tuple[NvmlDevice, ...] = ()
    problem: str = ""


SCHEMA = 1


@dataclass(frozen=True)
class Snapshot:
    """The state of a machine at one moment."""

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
    """Maps each part of the snapshot that could not be observed to the reason."""
    seconds: float = 0.0
    """The time that the observation took, in seconds, including cuInit."""

    def library(self, stem: str) -> Library | None:
        """Return the library whose name starts with `stem`, such as "libcudnn.so"."""
        return next((library for library in self.libraries if library.soname.startswith(stem)), None)

    @property
    def visible(self) -> tuple[NvmlDevice, ...]:
        """The GPUs that CUDA can also see in this environment, in its order, or all of NVML's if that is unknown."""
        known = {_place(device.pci or ""): device for device in self.nvml.devices}
        shown = dict.fromkeys(_place(device.pci) for device in self.driver.devices)  # MIG shows a GPU more than once
        return tuple(known[place] for place in shown if place in known) or self.nvml.devices

    @property
    def nvidia_hardware(self) -> bool:
        """True if there are signs of an NVIDIA GPU on this machine, even without querying the driver."""
        host = self.host
        on_bus = any(device.vendor == "10de" for device in host.pci)
        return on_bus or bool(host.nodes) or bool(host.kernel_driver)

    @property
    def gpu_wanted(self) -> bool:
        """True if checking for GPU problems makes sense here: there is a GPU, or at least a driver for one."""
        return self.nvidia_hardware or self.driver.asked

    @property
    def gpus_hidden(self) -> bool:
        """True if CUDA_VISIBLE_DEVICES hides every GPU."""
        return self.environment.get("CUDA_VISIBLE_DEVICES", "all").strip() in ("", "-1", "NoDevFiles")

    def as_document(self) -> dict[str, Any]:
        """Return the snapshot as plain JSON values."""
        return {"schema": SCHEMA, **asdict(self)}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Snapshot:
        """Read a snapshot from a document. Raises ValueError if the document has a different schema."""
        if document.get("schema") != SCHEMA:
            raise ValueError("not a snapshot that this version can read")
        snapshot: Snapshot = _decode(cls, document)
        return snapshot


def _place(pci: str) -> str:
    """Return the part of a PCI address common to CUDA and NVML: :01:00.0 for both 0000:01:00.0 and 00000000:01:00.0."""
    return pci.lower().lstrip("0") or pci


def _decode(kind: Any, value: Any) -> Any:
    """Build a frozen value of this type (a dataclass, tuple or optional) from plain JSON values."""
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
