"""The GPUs that XLA compiles for, one per compute capability, described for its compiler. Pure.

XLA asks for the instructions, the resources of a multiprocessor, and the speed. These are NVIDIA's published figures
for one GPU of each compute capability; none was read from a device by this project. The memory is always that of the
GPU that the plan is for.
"""

from __future__ import annotations

from typing import NamedTuple

_KIB, _MIB = 1 << 10, 1 << 20
_CUDA, _CUDNN = (12, 9, 1), (9, 10, 2)
"""The versions of CUDA and cuDNN that XLA compiles for."""


class Target(NamedTuple):
    """One GPU as XLA's compiler sees it. Sizes in bytes, the bandwidth in GB/s, the clock in GHz."""

    capability: tuple[int, int]
    name: str
    multiprocessors: int
    threads: int
    """The most threads on one multiprocessor."""
    shared: int
    """The shared memory of one multiprocessor."""
    shared_of_block: int
    """The most shared memory of one block."""
    lanes: int
    """The number of float32 units in one multiprocessor."""
    cache: int
    bandwidth: int
    clock: float

    @property
    def words(self) -> str:
        """The target in words for people: "compute capability 8.9, as of an RTX 4090"."""
        major, minor = self.capability
        return f"compute capability {major}.{minor}, as of {self.name}"


TARGETS = (
    Target((6, 0), "a P100", 56, 2048, 64 * _KIB, 48 * _KIB, 64, 4 * _MIB, 732, 1.48),
    Target((6, 1), "a GTX 1080 Ti", 28, 2048, 96 * _KIB, 48 * _KIB, 128, 2816 * _KIB, 484, 1.58),
    Target((7, 0), "a V100", 80, 2048, 96 * _KIB, 96 * _KIB, 64, 6 * _MIB, 900, 1.53),
    Target((7, 5), "a T4", 40, 1024, 64 * _KIB, 64 * _KIB, 64, 4 * _MIB, 320, 1.59),
    Target((8, 0), "an A100", 108, 2048, 164 * _KIB, 163 * _KIB, 64, 40 * _MIB, 1555, 1.41),
    Target((8, 6), "an RTX 3090", 82, 1536, 100 * _KIB, 99 * _KIB, 128, 6 * _MIB, 936, 1.70),
    Target((8, 9), "an RTX 4090", 128, 1536, 100 * _KIB, 99 * _KIB, 128, 72 * _MIB, 1008, 2.52),
    Target((9, 0), "an H100", 132, 2048, 228 * _KIB, 227 * _KIB, 128, 50 * _MIB, 3352, 1.98),
    Target((10, 0), "a B200", 148, 2048, 228 * _KIB, 227 * _KIB, 128, 126 * _MIB, 8000, 1.96),
    Target((12, 0), "an RTX 5090", 170, 1536, 100 * _KIB, 99 * _KIB, 128, 96 * _MIB, 1792, 2.41),
)
_UNNAMED = (9, 0)
"""The compute capability for a bare amount of memory: of all targets tried, it got the largest workspaces."""


class Chosen(NamedTuple):
    """The target that a plan is compiled for."""

    target: Target
    is_nearest: bool
    """True if the target's compute capability is not that of the plan's GPU, or that GPU's is unknown."""


def choose(capability: str) -> Chosen | None:
    """The target for a compute capability such as "8.9": its own, or the next lower one; None if there is none."""
    wanted = _numbers(capability)
    if wanted is None:
        return Chosen(next(each for each in TARGETS if each.capability == _UNNAMED), True)
    below = [target for target in TARGETS if target.capability <= wanted]
    return Chosen(below[-1], below[-1].capability != wanted) if below else None


def _numbers(capability: str) -> tuple[int, int] | None:
    major, _, minor = capability.partition(".")
    return (int(major), int(minor)) if major.isdecimal() and minor.isdecimal() else None


def description(target: Target, memory: int) -> str:
    """The target with this much memory, as a GpuTargetConfigProto in text form."""
    (major, minor), cuda = target.capability, ".".join(map(str, _CUDA))
    dnn_major, dnn_minor, dnn_patch = _CUDNN
    clock = f"{target.clock:g}"
    return f"""
gpu_device_info {{
  cuda_compute_capability {{ major: {major} minor: {minor} }}
  device_memory_size: {memory}
  core_count: {target.multiprocessors}
  fpus_per_core: {target.lanes}
  clock_rate_ghz: {clock}
  memory_bandwidth: {target.bandwidth * 10**9}
  l2_cache_size: {target.cache}
  shared_memory_per_core: {target.shared}
  shared_memory_per_block: {48 * _KIB}
  shared_memory_per_block_optin: {target.shared_of_block}
  threads_per_warp: 32
  threads_per_core_limit: {target.threads}
  threads_per_block_limit: 1024
  thread_dim_limit_x: 1024 thread_dim_limit_y: 1024 thread_dim_limit_z: 64
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
  registers_per_core_limit: 65536 registers_per_block_limit: 65536
  driver_version: "{cuda}" runtime_version: "{cuda}" compile_time_toolkit_version: "{cuda}"
  dnn_version: "{dnn_major}.{dnn_minor}.{dnn_patch}"
}}
platform_name: "CUDA"
dnn_version_info {{ major: {dnn_major} minor: {dnn_minor} patch: {dnn_patch} }}
device_description_str: "{target.words}"
"""
