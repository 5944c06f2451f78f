"""Snapshot: a machine as TensorFlow finds it, as frozen values. The journal of every run holds one.

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

A part that could not be observed keeps its defaults, and `unread` says why.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from typing import Any

from oomph.doctor.snapshot.drivers import CudaDevice, Driver, HoldingProcess, NvmlAnswers, NvmlDevice
from oomph.doctor.snapshot.software import Candidate, Library, Package, Packages, TensorFlow, Toolchain
from oomph.doctor.snapshot.system import DeviceNode, HostFacts, PciDevice, Python

__all__ = [
    "SCHEMA",
    "Candidate",
    "CudaDevice",
    "DeviceNode",
    "Driver",
    "HoldingProcess",
    "HostFacts",
    "Library",
    "NvmlAnswers",
    "NvmlDevice",
    "Package",
    "Packages",
    "PciDevice",
    "Python",
    "Snapshot",
    "TensorFlow",
    "Toolchain",
]

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
    """Part of the snapshot → why it could not be observed."""
    seconds: float = 0.0
    """The seconds that observing took, cuInit included."""

    def library(self, stem: str) -> Library | None:
        """The library whose name begins with `stem`, such as "libcudnn.so"."""
        return next((library for library in self.libraries if library.soname.startswith(stem)), None)

    @property
    def visible(self) -> tuple[NvmlDevice, ...]:
        """The GPUs shown by NVML that CUDA shows to this environment too; all of them if that is unknown."""
        shown = {_place(device.pci) for device in self.driver.devices}
        found = tuple(device for device in self.nvml.devices if _place(device.pci or "") in shown)
        return found or self.nvml.devices

    @property
    def nvidia_hardware(self) -> bool:
        """True if anything on this machine shows an NVIDIA GPU without the driver's help."""
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
        """The snapshot as plain values for JSON."""
        return {"schema": SCHEMA, **asdict(self)}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Snapshot:
        """The snapshot in a document; raises ValueError if the document has another schema."""
        if document.get("schema") != SCHEMA:
            raise ValueError("not a snapshot of this schema")
        snapshot: Snapshot = _decode(cls, document)
        return snapshot


def _place(pci: str) -> str:
    """The part of a PCI address that CUDA and NVML share: :01:00.0 for both 0000:01:00.0 and 00000000:01:00.0."""
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
