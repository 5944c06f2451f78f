"""Finds the folder where a notebook keeps its run, next to the notebook."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

from oomph.errors import RunDirectoryError
from oomph.process import process_identity
from oomph.protocol.entropy import fresh
from oomph.run.directory.run_directory import RunDirectory, RunRecord, file_name, read_record
from oomph.run.directory.trust import NOTEBOOKS, make_own_parents

_SESSION_NAME = "JPY_SESSION_NAME"
"""The variable in which jupyter_server passes the path of the notebook, as it was when the kernel started."""
_UNNAMED = "notebook"


def folder_of_notebook(environ: Mapping[str, str], cwd: Path) -> Path:
    """Return the run directory of a kernel's notebook, or of its working directory if the notebook is unknown."""
    notebook = Path(environ.get(_SESSION_NAME, ""))
    if notebook.suffix == ".ipynb" and notebook.parent.is_dir():
        return cwd / notebook.parent / ".oomph" / NOTEBOOKS / file_name(notebook.stem)
    return cwd / ".oomph" / NOTEBOOKS / _UNNAMED


def open_run(path: Path, command: tuple[str, ...], python: str) -> RunDirectory:
    """Open the notebook's run directory, or create it. Raises RunDirectoryError if that fails.

    A second kernel of the same notebook finds it locked. The record of one that was there is changed in memory alone:
    it is written when an attempt starts, and each write waits for the disk, and the user for each write.
    """
    if read_record(path) is not None:
        run = RunDirectory.reopen(path)
        run.record = run.record._replace(command=command, python=python, host=process_identity.host())
        return run
    try:
        make_own_parents(NOTEBOOKS, path.parents[2])
    except OSError as error:
        raise RunDirectoryError(f"the run directory {path} cannot be written: {error.strerror}") from error
    created = time.strftime("%Y-%m-%dT%H:%M:%S%z")
    host = process_identity.host()
    return RunDirectory.create(path, RunRecord(command, python, os.getcwd(), created, host=host, entropy=fresh()))
