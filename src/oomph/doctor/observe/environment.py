"""The variables that change what TensorFlow, CUDA or the loader do. Others are not kept: they may hold secrets."""

from __future__ import annotations

from collections.abc import Mapping

_NAMES = (
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "KERAS_BACKEND",
    "KERAS_TORCH_DEVICE",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "CONDA_PREFIX",
    "VIRTUAL_ENV",
    "PYTHONPATH",
    "PYTHONHOME",
    "SLURM_JOB_GPUS",
    "SLURM_STEP_GPUS",
)
_PREFIXES = ("CUDA_", "TF_", "XLA_", "NVIDIA_", "NCCL_", "CUDNN_", "CUBLAS_")


def observe_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Those of them that are set."""
    return {name: value for name, value in sorted(environ.items()) if name in _NAMES or name.startswith(_PREFIXES)}
