"""Observes the machine and its container: memory, disk, PCI, kernel modules, device files, variables, XLA's tools.

Only small files are read. The only variables kept are those that affect TensorFlow, CUDA or the loader, since others
may contain secrets. TF_ is also Terraform's prefix (TF_VAR_password), and NVIDIA_ is also used for keys to NVIDIA's
services (NVIDIA_API_KEY). For these two, only known longer prefixes are kept.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from oomph.doctor.snapshot import DeviceNode, HostFacts, PciDevice, Toolchain
from oomph.files.opening import read_regular
from oomph.process.available_memory import MemoryLimit, machine_bytes

_MODULES = ("nvidia", "nvidia_uvm", "nouveau", "amdgpu")
_VENDORS = ("10de", "1002")
_MOST_BYTES = 1 << 20
_NO_LIMIT_BYTES = 1 << 60
"""A limit of at least this many bytes means "no limit": cgroup v1 reports a number of this size if there is none."""


def observe_host(environ: Mapping[str, str], root: Path = Path("/"), folder: Path | None = None) -> HostFacts:
    """Observe the host. Disk space is reported for `folder`, which defaults to the working directory."""
    folder = Path.cwd() if folder is None else folder
    release = platform.release()
    cache = _cache(environ)
    return HostFacts(
        system=platform.system(),
        machine=platform.machine(),
        release=release,
        libc=_libc(),
        wsl="microsoft" in release.lower() or (root / "usr/lib/wsl/lib").is_dir(),
        container=_container(environ, root),
        memory_bytes=machine_bytes(root),
        memory_limit_bytes=MemoryLimit(_NO_LIMIT_BYTES, root).bytes,
        shm_bytes=_disk(root / "dev/shm")[0],
        disk_path=str(folder),
        disk_free_bytes=_disk(folder)[1],
        cache_path=str(cache),
        cache_writable=_can_write(cache),
        pci=tuple(_pci(root)),
        nodes=tuple(_nodes(root)),
        kernel_driver=_kernel_driver(root),
        modules=tuple(name for name in _MODULES if (root / "sys/module" / name).is_dir()),
    )


def _text(path: Path) -> str:
    """Return the contents of a small file, or an empty string if it cannot be read."""
    try:
        return read_regular(path, _MOST_BYTES).decode(errors="replace").strip()
    except OSError:
        return ""


def _libc() -> str:
    name, version = platform.libc_ver()
    if name:
        return f"{name} {version}"
    return "musl" if any(Path("/lib").glob("ld-musl-*")) else ""


def _container(environ: Mapping[str, str], root: Path) -> str:
    if environ.get("KUBERNETES_SERVICE_HOST"):
        return "kubernetes"
    if (root / ".dockerenv").exists():
        return "docker"
    if (root / "run/.containerenv").exists():
        return "podman"
    named = environ.get("container", "") or _text(root / "run/systemd/container")
    if environ.get("APPTAINER_CONTAINER") or environ.get("SINGULARITY_CONTAINER"):
        return "apptainer"
    if named and named != "wsl":
        return named
    marks = ("docker", "containerd", "kubepods", "libpod", "lxc")
    return "container" if any(mark in _text(root / "proc/1/cgroup") for mark in marks) else ""


def _disk(path: Path) -> tuple[int | None, int | None]:
    """Return the size and the free space of this folder's file system, in bytes."""
    try:
        found = shutil.disk_usage(path)
    except OSError:
        return None, None
    return found.total, found.free


def _cache(environ: Mapping[str, str]) -> Path:
    named = environ.get("CUDA_CACHE_PATH")
    return Path(named) if named else Path(os.path.expanduser("~")) / ".nv" / "ComputeCache"


def _can_write(path: Path) -> bool:
    """True if files can be created in the folder or, if it does not exist, in its nearest existing parent."""
    for place in (path, *path.parents):
        if place.exists():
            return place.is_dir() and os.access(place, os.W_OK | os.X_OK)
    return False


def _pci(root: Path) -> Iterator[PciDevice]:
    """Yield the display and 3D controllers (class 03) and accelerators (class 12) from the relevant vendors."""
    try:
        folders = sorted((root / "sys/bus/pci/devices").iterdir())
    except OSError:
        return
    for folder in folders:
        vendor = _text(folder / "vendor").removeprefix("0x")
        if vendor in _VENDORS and _text(folder / "class").startswith(("0x03", "0x12")):
            yield PciDevice(folder.name, vendor, _text(folder / "device").removeprefix("0x"))


def _nodes(root: Path) -> Iterator[DeviceNode]:
    for path in sorted((root / "dev").glob("nvidia*")):
        if path.name.removeprefix("nvidia").isdigit() or path.name in ("nvidiactl", "nvidia-uvm"):
            yield DeviceNode(str(path), os.access(path, os.R_OK | os.W_OK), _owner(path))


def _owner(path: Path) -> str:
    try:
        found = path.stat()
        return f"{path.owner()}:{path.group()} {stat.filemode(found.st_mode)}"
    except (OSError, KeyError):
        return ""


def _kernel_driver(root: Path) -> str:
    """Find the driver version: "550.54.15" if the line is "NVRM version: ... Kernel Module  550.54.15  Tue ..."."""
    for line in _text(root / "proc/driver/nvidia/version").splitlines():
        if line.startswith("NVRM"):
            return next((word for word in line.split() if word[:1].isdigit() and word.count(".") >= 1), "")
    return ""


_NAMES = (
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "KERAS_BACKEND",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "CONDA_PREFIX",
    "VIRTUAL_ENV",
    "PYTHONPATH",
    "PYTHONHOME",
    "SLURM_JOB_GPUS",
    "SLURM_STEP_GPUS",
    "TF_CONFIG",
    "TF_DETERMINISTIC_OPS",
)
_PREFIXES = (
    *("CUDA_", "XLA_", "NCCL_", "CUDNN_", "CUBLAS_"),
    *("NVIDIA_VISIBLE_", "NVIDIA_DRIVER_", "NVIDIA_REQUIRE_", "NVIDIA_DISABLE_", "NVIDIA_TF32_"),
    *("TF_GPU_", "TF_FORCE_", "TF_CPP_", "TF_XLA_", "TF_CPU_", "TF_ENABLE_", "TF_DISABLE_", "TF_USE_"),
    *("TF_CUDNN_", "TF_CUBLAS_", "TF_CUDA_", "TF_MIN_", "TF_NUM_"),
)
_SECRET = ("TOKEN", "KEY", "SECRET", "PASSWORD", "CREDENTIAL")


def observe_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the relevant environment variables that are set."""
    return {name: value for name, value in sorted(environ.items()) if _kept(name)}


def _kept(name: str) -> bool:
    if any(word in name.upper() for word in _SECRET):
        return False
    return name in _NAMES or name.startswith(_PREFIXES)


_DATA_DIR = re.compile(r"--xla_gpu_cuda_data_dir=(\S+)")


def observe_toolchain(path: Sequence[str], environ: Mapping[str, str], root: Path = Path("/")) -> Toolchain:
    """Find the first ptxas and the first libdevice, in XLA's search order (cuda_root_path.cc of xla)."""
    named = _DATA_DIR.search(environ.get("XLA_FLAGS", ""))
    data_dir = named[1] if named else ""
    homes = list(_homes(data_dir, path, root))
    ptxas = next((str(home / "bin/ptxas") for home in homes if (home / "bin/ptxas").is_file()), "")
    libdevice = next((str(found) for home in homes for found in (home / "nvvm/libdevice").glob("libdevice.*.bc")), "")
    on_path = shutil.which("ptxas", path=environ.get("PATH")) or ""
    return Toolchain(ptxas or on_path, libdevice, data_dir, not data_dir or Path(data_dir).is_dir())


def _homes(data_dir: str, path: Sequence[str], root: Path) -> Iterator[Path]:
    if data_dir:
        yield Path(data_dir)
    for entry in path:
        yield from sorted(Path(entry).glob("nvidia/cuda_nvcc"))
    yield root / "usr/local/cuda"
    yield from sorted((root / "usr/local").glob("cuda-*"), reverse=True)
