"""Patience: how long the script is left to end by itself after it was told to."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Patience:
    """How long the script is left to end by itself after it was told to."""

    terminate_seconds: float = 25.0
    """After SIGTERM, until SIGKILL: Slurm and Kubernetes give 30 s by default, and oomph needs some of them itself."""
    interrupt_seconds: float = 5.0
    """After the second Ctrl-C (SIGTERM), until SIGKILL."""
    double_seconds: float = 10.0
    """Two Ctrl-C within this time are one request to stop; later ones are news for the script."""
    echo_seconds: float = 0.5
    """Schedulers send SIGTERM to every process of a job, and to its steps: within this time they are one signal."""
    hang_seconds: float = 5.0
    """After the SIGTERM that ends a hang, until SIGKILL."""
    unkillable_seconds: float = 60.0
    """After SIGKILL, until the process is left to the kernel: Slurm calls a step unkillable after as long."""
