"""The script's environment: ours, the handover, and our sitecustomize at the front of PYTHONPATH."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import oomph
from oomph.gpu.memory_in_use import Gpu
from oomph.protocol.entropy import hash_seed
from oomph.protocol.handover import Handover
from oomph.protocol.ownership import VARIABLE as OWNER_VARIABLE
from oomph.run.directory.run_directory import RunDirectory
from oomph.run.hang.watch import STACKS_SIGNAL, Watch
from oomph.run.policy.ladder import Change
from oomph.run.supervisor import effects
from oomph.run.supervisor.settings import Settings

_PACKAGE = Path(oomph.__file__).resolve().parent
_SITE = _PACKAGE / "inject" / "site"


def surrounding(settings: Settings, changes: Sequence[Change], gpus: Sequence[Gpu], entropy: str) -> dict[str, str]:
    """Our environment with the doctor's repairs and the changes decided so far.

    Args:
        settings: the settings of the run.
        changes: the changes in effect.
        gpus: all GPUs of the machine.
        entropy: the run's entropy; empty for none.
    """
    environ = dict(os.environ)
    environ.pop(OWNER_VARIABLE, None)  # a run inside another run has its own owner
    _repair(environ, settings.machine_at_start.changes)
    if changes:
        environ = effects.environ_after(changes, environ, gpus)
    environ |= hash_seed(entropy, environ)
    put_site_first(environ)
    return environ


def put_site_first(environ: dict[str, str]) -> None:
    """Put our sitecustomize first, so that every Python with this environment loads it before its script."""
    path = environ.get("PYTHONPATH")
    environ["PYTHONPATH"] = f"{_SITE}{os.pathsep}{path}" if path else str(_SITE)


def handover(
    settings: Settings, changes: Sequence[Change], run: RunDirectory | None, attempt: int, watch: Watch
) -> Handover:
    """The handover from the supervisor to the script's process."""
    beat_inode, stacks_inode = watch.inodes
    return Handover(
        package=str(_PACKAGE),
        run_dir=None if run is None else str(run.path),
        run_dir_is=None if run is None else run.identity,
        attempt=attempt,
        guarding=settings.guarding,
        lock_fd=None if run is None else run.lock_fd,
        beat_fd=watch.beat_fd,
        beat_inode=beat_inode,
        stacks_fd=watch.stacks_fd,
        stacks_inode=stacks_inode,
        stacks_signal=STACKS_SIGNAL,
        most_samples=effects.most_samples(changes),
        entropy="" if run is None else run.record.entropy,
        changes=effects.for_the_script(changes),
    )


def _repair(environ: dict[str, str], repairs: Mapping[str, str | None]) -> None:
    for name, value in repairs.items():
        if value is None:
            environ.pop(name, None)
        else:
            environ[name] = value
