"""Finds the name of the notebook that runs in this process, and the run directory that belongs to it.

Jupyter's server tells a kernel the notebook's path, and so does VS Code; nbclient, papermill and Colab do not. A plain
program goes by its own name. Standard library only.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from oomph.files.oomph_folder import NOTEBOOKS, OOMPH
from oomph.run.directory.run_directory import FINISHED, file_name, read_record
from oomph.script import shell

_IN_NAMESPACE = ("__session__", "__vsc_ipynb_file__")
_IN_ENVIRONMENT = "JPY_SESSION_NAME"
_ONE_NOTEBOOK = ("COLAB_RELEASE_TAG", "KAGGLE_KERNEL_RUN_TYPE")
"""Environment variables of services that give each notebook its own machine, so that no name is needed."""
_SUFFIX = ".ipynb"
_UNNAMED = "notebook"


class Notebook(NamedTuple):
    """A notebook, or a program that has enabled oomph itself."""

    folder: Path
    name: str
    is_named: bool = True
    """False if the kernel cannot know which of several notebooks it runs."""

    @property
    def run_dir(self) -> Path:
        """The path of the notebook's run directory."""
        return self.folder / OOMPH / NOTEBOOKS / _folder_name(self.name)

    @property
    def entropy(self) -> str:
        """The seed of the run that a kernel would continue, or "" if it would start a new one."""
        record = read_record(self.run_dir)
        return "" if record is None or record.status == FINISHED else record.entropy


def _folder_name(name: str) -> str:
    """Return the name of a notebook's folder, with a digest if letters had to go: "a b" and "a-b" are two notebooks."""
    plain = file_name(name)
    if plain == name:
        return plain
    from hashlib import blake2b  # late: an import here delays every kernel's start

    return f"{plain}-{blake2b(name.encode(errors='surrogateescape'), digest_size=4).hexdigest()}"


def notebook_here() -> Notebook:
    """Return the notebook of this process. Raises OSError if the working directory has been deleted."""
    running, folder = shell.running(), Path.cwd()
    if running is None:
        name = Path(sys.argv[0]).stem
        return Notebook(folder, name if name not in ("", "-c", "-m") else "python")
    return named(getattr(running, "user_ns", {}), os.environ, folder)


def named(namespace: Mapping[str, Any], environ: Mapping[str, str], folder: Path) -> Notebook:
    """Return the notebook that a kernel runs.

    Args:
        namespace: the variables of the cells.
        folder: the working directory of the kernel.
    """
    for told in (*map(namespace.get, _IN_NAMESPACE), environ.get(_IN_ENVIRONMENT)):
        if isinstance(told, str) and told.endswith(_SUFFIX):
            path = folder / told
            return Notebook(path.parent if path.parent.is_dir() else folder, path.stem)
    return Notebook(folder, _UNNAMED, is_named=any(name in environ for name in _ONE_NOTEBOOK))
