"""Makes all workers resume from the same step, since they would otherwise wait forever.

Finds the checkpoints that not all of them have, and gives workers that join a gang those of the first one.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from oomph.checkpoint.container import is_sealed_with, seal_copy
from oomph.checkpoint.origin import key_of
from oomph.checkpoint.store import State, in_order, is_end, state_of
from oomph.errors import RunDirectoryError
from oomph.files.opening import make_own_folder
from oomph.run.directory.run_directory import RunDirectory
from oomph.run.supervisor.effects import set_aside

_CHECKPOINTS = "checkpoints"


def saved_in(checkpoints: Path) -> dict[State, str]:
    """Return the names of the checkpoints in a folder by the states that they hold, oldest first."""
    try:
        names = in_order(entry.name for entry in checkpoints.iterdir())
    except OSError:
        return {}
    return {state: name for name in names if (state := state_of(name)) is not None}


def ahead(saved: Sequence[Mapping[State, str]]) -> list[list[str]]:
    """Return, for each worker, the names of the checkpoints that it must not use, since another worker lacks them.

    Within a fit, these are the ones that are newer than the newest one that all have. Older ones are not used anyway.

    Args:
        saved: what `saved_in` returns for each worker.
    """
    common = set.intersection(*(set(each) for each in saved))
    return [[*_newer(each, common), *_ends(each, common)] for each in saved]


def _newer(saved: Mapping[State, str], common: set[State]) -> list[str]:
    steps = [state for state in saved if not is_end(state)]
    newest = max((index for index, state in enumerate(steps) if state in common), default=-1)
    return [saved[state] for state in steps[newest + 1 :]]


def _ends(saved: Mapping[State, str], common: set[State]) -> list[str]:
    return [name for state, name in saved.items() if is_end(state) and state not in common]


def share_checkpoints(first: RunDirectory, joining: RunDirectory) -> None:
    """Give a worker that joins the gang copies of the first worker's checkpoints. Raises RunDirectoryError.

    All workers hold the same variables. Any checkpoints from an earlier time in the gang are set aside.
    """
    own, theirs = joining.path / _CHECKPOINTS, first.path / _CHECKPOINTS
    for name in saved_in(own).values():
        shutil.rmtree(own / f"refused-{name}", ignore_errors=True)  # the worker may have joined at this step before
        set_aside(own, name)
    try:
        for name in saved_in(theirs).values():
            make_own_folder(joining.path, _CHECKPOINTS)
            partial = own / f"tmp-{name}-{os.getpid()}"
            shutil.copytree(theirs / name, partial, symlinks=True)
            _seal_for(joining, first, partial)
            partial.rename(own / name)
    except (OSError, shutil.Error) as error:
        raise RunDirectoryError(f"the checkpoints cannot be copied to {own}: {error}") from error


def _seal_for(joining: RunDirectory, first: RunDirectory, copy: Path) -> None:
    """Seal the copy of a checkpoint with the key of the joining worker, if the first one's was sealed here."""
    before, after = (key_of(each.path, each.record.entropy) for each in (first, joining))
    if before is not None and after is not None and is_sealed_with(copy, before):
        seal_copy(copy, after)
