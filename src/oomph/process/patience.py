"""Patience: how long the supervisor process waits for the script to end after a signal."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Patience:
    """How long to wait for the script to end after a signal."""

    terminate_seconds: float = 25.0
    """After SIGTERM, until SIGKILL: Slurm and Kubernetes give 30 s by default, of which oomph needs some itself."""
    interrupt_seconds: float = 5.0
    """After the second Ctrl-C (SIGTERM), until SIGKILL."""
    double_seconds: float = 15.0
    """Two Ctrl-C within this time are a request to stop; a later one counts as a new Ctrl-C for the script."""
    echo_seconds: float = 0.5
    """Schedulers send SIGTERM to every process of a job and to its steps: within this time these are one signal."""
    hang_seconds: float = 5.0
    """After the SIGTERM that ends a hang, until SIGKILL."""
    unkillable_seconds: float = 60.0
    """After SIGKILL, until the process is given up as unkillable; Slurm waits as long."""
