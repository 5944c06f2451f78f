"""Snapshot part: the GPUs as libcuda shows them to this environment, and as NVML shows them."""

from __future__ import annotations

from dataclasses import dataclass


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
        """The compute capability, such as (8, 6); None when the driver did not report it."""
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
    """The result of cuInit; None if it did not return."""
    init_seconds: float | None = None
    devices: tuple[CudaDevice, ...] = ()
    problem: str = ""
    """The reason for an incomplete answer: "no answer within 5 s", "ended by SIGSEGV"; else empty."""


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
    """The numbers of rows remapped for correctable and for uncorrectable errors, then 1 if remapping is pending, if
    it failed."""
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
    """False when there is no libnvidia-ml to ask."""
    unavailable: str = ""
    """The reason oomph could not ask; TensorFlow may still be able to."""
    init: int | None = None
    error: str = ""
    driver: str = ""
    """The driver's version: 550.54.15."""
    cuda_version: int | None = None
    devices: tuple[NvmlDevice, ...] = ()
    problem: str = ""
