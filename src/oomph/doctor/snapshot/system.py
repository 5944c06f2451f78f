"""Snapshot part: the Python that runs the script, and the machine or container around it."""

from __future__ import annotations

from dataclasses import dataclass


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
    """True if `uv` is on PATH, for environments that have no pip."""
    moved_from: str = ""
    """The place where this virtual environment was created, if it has moved."""

    @property
    def version_text(self) -> str:
        """The version in words: "3.11.2"."""
        return ".".join(map(str, self.version))


@dataclass(frozen=True)
class PciDevice:
    """A display or compute controller on the PCI bus."""

    address: str
    vendor: str
    """The vendor's number in hexadecimal: 10de is NVIDIA, 1002 is AMD."""
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
    """The memory limit of the control group, in bytes; None when there is none."""
    shm_bytes: int | None = None
    disk_path: str = ""
    disk_free_bytes: int | None = None
    cache_path: str = ""
    """The folder of the kernels that the driver has compiled from PTX."""
    cache_writable: bool = True
    pci: tuple[PciDevice, ...] = ()
    nodes: tuple[DeviceNode, ...] = ()
    kernel_driver: str = ""
    """The version of the loaded NVIDIA kernel module; empty if none is loaded."""
    modules: tuple[str, ...] = ()
    """The relevant kernel modules that are loaded."""
