"""CHECKS: every check, causes before consequences. To add one, write a module in a folder and name it here."""

from __future__ import annotations

from oomph.doctor.check import Check
from oomph.doctor.checks.cuda import (
    cuda_libraries,
    cudnn_version,
    gpu_architecture,
    library_shadowing,
    ptx_cache,
    xla_toolchain,
)
from oomph.doctor.checks.driver import amd_gpu, device_nodes, driver_start, driver_version, gpu_present, nvml
from oomph.doctor.checks.gpu import compute_mode, gpu_clocks, gpu_health, gpu_heat, gpu_memory, mig, unequal_gpus
from oomph.doctor.checks.host import disk_space, host_memory, shared_memory
from oomph.doctor.checks.installation import (
    cpu_only_build,
    environment_moved,
    keras_version,
    nvidia_wheels,
    platform,
    python_version,
    requirements,
    tensorflow_installed,
    tensorflow_twice,
)
from oomph.doctor.checks.settings import (
    cuda_visible_devices,
    debug_variables,
    gpu_allocator,
    gpu_growth,
    log_level,
    xla_flags,
)

CHECKS: tuple[Check, ...] = (
    platform.CHECK,
    python_version.CHECK,
    environment_moved.CHECK,
    tensorflow_installed.CHECK,
    tensorflow_twice.CHECK,
    cpu_only_build.CHECK,
    keras_version.CHECK,
    requirements.CHECK,
    nvidia_wheels.CHECK,
    gpu_present.CHECK,
    driver_start.CHECK,
    driver_version.CHECK,
    nvml.CHECK,
    device_nodes.CHECK,
    amd_gpu.CHECK,
    cuda_libraries.CHECK,
    library_shadowing.CHECK,
    cudnn_version.CHECK,
    gpu_architecture.CHECK,
    ptx_cache.CHECK,
    xla_toolchain.CHECK,
    cuda_visible_devices.CHECK,
    gpu_growth.CHECK,
    gpu_allocator.CHECK,
    xla_flags.CHECK,
    debug_variables.CHECK,
    log_level.CHECK,
    gpu_memory.CHECK,
    unequal_gpus.CHECK,
    mig.CHECK,
    gpu_health.CHECK,
    gpu_heat.CHECK,
    compute_mode.CHECK,
    gpu_clocks.CHECK,
    host_memory.CHECK,
    shared_memory.CHECK,
    disk_space.CHECK,
)
