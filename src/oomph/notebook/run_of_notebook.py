"""Opens the run directory of a notebook, for a kernel or its supervisor.

A kernel continues the run of the kernels before it. A finished run is renamed first, unless it trained nothing.
"""

from __future__ import annotations

import itertools
import os
import sys
import time
from pathlib import Path

from oomph.errors import RunDirectoryError
from oomph.files.oomph_folder import NOTEBOOKS, make_own_parents
from oomph.files.opening import is_own_folder
from oomph.notebook.naming import Notebook
from oomph.run.directory.run_directory import FINISHED, RunDirectory, RunRecord, read_record, read_summary

CHECKPOINTS = "checkpoints"


def open_run(notebook: Notebook, entropy: str) -> RunDirectory:
    """Continue the run of a notebook, or create a new one. Raises RunDirectoryError if that is not possible.

    Args:
        entropy: the seed of a new run's unseeded generators.
    """
    path = notebook.run_dir
    record = read_record(path)
    if record is not None and record.status != FINISHED:
        return _reopened(path)
    if record is not None and read_summary(path).get("steps") == 0:  # a notebook need not train each time
        directory = _reopened(path)
        directory.record = directory.record._replace(entropy=entropy)
        return directory
    if record is not None:
        set_aside(notebook)
    try:
        make_own_parents(NOTEBOOKS, notebook.folder)
    except OSError as error:
        raise RunDirectoryError(f"the run directory {path} cannot be written: {error.strerror}") from error
    created = time.strftime("%Y-%m-%dT%H:%M:%S%z")
    return RunDirectory.create(path, RunRecord((notebook.name,), sys.executable, os.getcwd(), created, entropy=entropy))


def set_aside(notebook: Notebook) -> Path | None:
    """Rename the run of a notebook, so that the next one starts afresh. Return its new path, or None if there is none.

    Raises RunDirectoryError if a kernel is using the run, or if it cannot be renamed.
    """
    path = notebook.run_dir
    if read_record(path) is None:
        return None
    directory = RunDirectory.reopen(path)
    try:
        return directory.set_aside()
    except OSError as error:
        raise RunDirectoryError(f"{path} cannot be renamed: {error.strerror}") from error
    finally:
        directory.close()


def set_checkpoints_aside(run_dir: Path) -> Path | None:
    """Rename the checkpoints of a run that a supervisor keeps open. Return their new path, or None if there are none.

    Raises OSError if they cannot be renamed.
    """
    if not is_own_folder(run_dir, CHECKPOINTS):
        return None
    aside = next(path for n in itertools.count(1) if not (path := run_dir / f"{CHECKPOINTS}.{n}").exists())
    (run_dir / CHECKPOINTS).rename(aside)
    (run_dir / "witness").unlink(missing_ok=True)  # new training must not be compared with it
    return aside


def _reopened(path: Path) -> RunDirectory:
    from oomph.checkpoint.store import foreign_format as foreign_checkpoints  # late: a new run needs neither
    from oomph.journal.journal import foreign_format as foreign_journal

    directory = RunDirectory.reopen(path)
    trouble = foreign_journal(path) or foreign_checkpoints(path / CHECKPOINTS)
    if trouble is not None:
        directory.close()
        raise RunDirectoryError(f"{path} cannot be continued: {trouble}")
    return directory
