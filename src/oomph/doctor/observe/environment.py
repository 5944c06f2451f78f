"""Keeps the variables that change what TensorFlow, CUDA or the loader do, and no others: they may hold secrets.

TF_ is also Terraform's prefix (TF_VAR_password), and NVIDIA_ that of keys for NVIDIA's services (NVIDIA_API_KEY). Of
both, only known longer prefixes are kept.
"""

from __future__ import annotations

from collections.abc import Mapping

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
    """The relevant variables that are set."""
    return {name: value for name, value in sorted(environ.items()) if _kept(name)}


def _kept(name: str) -> bool:
    if any(word in name.upper() for word in _SECRET):
        return False
    return name in _NAMES or name.startswith(_PREFIXES)
