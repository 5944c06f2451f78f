"""Installs, lists and removes the kernelspecs with which Jupyter starts kernels under oomph's supervision."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oomph.errors import UsageError
from oomph.notebook.kernel.launcher import IPYKERNEL, SUPERVISOR
from oomph.process.child import run
from oomph.process.command import IS_PYTHON

if TYPE_CHECKING:
    from jupyter_client.kernelspec import KernelSpecManager

NAME = "oomph"
_NEEDED = ("ipykernel", "oomph")
_PROBE = f"import importlib.util as u; print(*[name for name in {_NEEDED!r} if u.find_spec(name) is None])"
_PROBE_SECONDS = 30.0
_VALID_NAME = re.compile(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True)
class Kernelspec:
    """A kernelspec: its name, its folder, and what kernel.json says."""

    name: str
    folder: Path
    document: Mapping[str, Any]
    """The contents of kernel.json."""

    @property
    def argv(self) -> tuple[str, ...]:
        """The command line that starts the kernel."""
        words = self.document.get("argv")
        return tuple(map(str, words)) if isinstance(words, list) else ()

    @property
    def is_ours(self) -> bool:
        """True if the kernel runs under oomph's supervision."""
        return SUPERVISOR in self.argv

    @property
    def python(self) -> str:
        """The Python that runs the kernel, or an empty string if another program does."""
        program = self.argv[0] if self.argv else ""
        if not IS_PYTHON.match(program):
            return ""
        return program if os.path.isabs(program) else sys.executable  # as jupyter_client resolves it

    @property
    def trouble(self) -> str:
        """The reason why the kernel cannot start, or an empty string."""
        if self.python and not os.path.exists(self.python):
            return f"its Python {self.python} is gone; to remove it: oomph kernel uninstall {self.name}"
        return ""


def installed() -> list[Kernelspec]:
    """Return the installed kernelspecs whose kernels oomph supervises. Raises UsageError without jupyter_client."""
    found = (_read(name, Path(folder)) for name, folder in sorted(_manager().find_kernel_specs().items()))
    return [spec for spec in found if spec is not None and spec.is_ours]


def install(like: str | None, *, user: bool, sys_prefix: bool) -> Kernelspec:
    """Install a kernelspec, and return it. Raises UsageError if that is impossible.

    By default, it goes where the Jupyter of this Python finds it: into its virtual environment, or the user's folder.

    Args:
        like: the kernelspec to copy, with its arguments, environment, metadata and icons, or None for ipykernel's own.
        user: True to install it in the user's folder.
        sys_prefix: True to install it in the environment of this Python.
    """
    manager = _manager()
    model = _model(manager, like)
    name = NAME if like is None else f"{like}-{NAME}"
    before = _found(name, manager.find_kernel_specs())
    if before is not None and not before.is_ours:
        raise UsageError(f"kernelspec {name} is not oomph's: to replace it, first run jupyter kernelspec remove {name}")
    prefix = sys_prefix or (not user and sys.prefix != sys.base_prefix)
    document = supervised(model, name)
    _keep_others(name, prefix)
    try:
        with tempfile.TemporaryDirectory(prefix="oomph-kernelspec-") as scratch:
            source = Path(scratch) / "spec"
            shutil.copytree(model.folder, source)
            os.chmod(source, 0o755)
            (source / "kernel.json").write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
            where = sys.prefix if prefix else None
            folder = manager.install_kernel_spec(str(source), name, user=not prefix, prefix=where)
    except OSError as error:
        raise UsageError(f"the kernelspec cannot be installed: {error}") from error
    return Kernelspec(name, Path(folder), document)


def _keep_others(name: str, prefix: bool) -> None:
    """Raise UsageError if a folder that is no kernelspec is in the place of the new one, which would replace it."""
    from jupyter_core.paths import jupyter_data_dir

    folder = Path(sys.prefix, "share", "jupyter") if prefix else Path(jupyter_data_dir())
    folder = folder / "kernels" / name
    if folder.is_dir() and any(folder.iterdir()) and not (folder / "kernel.json").exists():
        raise UsageError(f"{folder} is not a kernelspec: move it away first")


def uninstall(name: str) -> Kernelspec:
    """Remove a kernelspec, and return it. Raises UsageError if it is not one of oomph's."""
    found = _found(name, _manager().find_kernel_specs())
    if found is None:
        raise UsageError(f"no kernelspec is named {name}; oomph kernel list shows those of oomph")
    if not found.is_ours:
        raise UsageError(f"kernelspec {name} is not one of oomph's: to remove it, run jupyter kernelspec remove {name}")
    try:
        shutil.rmtree(found.folder)
    except OSError as error:
        raise UsageError(f"the kernelspec {name} cannot be removed: {error}") from error
    return found


def supervised(model: Kernelspec, name: str) -> dict[str, Any]:
    """Return the model's kernel.json with oomph as the launcher's parent. Raises UsageError if that is impossible.

    The command line still has Python run a module, which is what VS Code expects.

    Args:
        model: the kernelspec to supervise.
        name: the name of the new kernelspec, which also tells two of the same display name apart.
    """
    python, words = model.python, model.argv[1:]
    if not python:
        raise UsageError(f"the kernel {model.name} is not started by Python: oomph supervises Python kernels only")
    if "-m" not in words[:-1]:
        raise UsageError(f"the kernel {model.name} is not started with python -m MODULE: oomph cannot start it")
    if model.is_ours:
        raise UsageError(f"the kernel {model.name} is already supervised by oomph")
    at = words.index("-m")
    shown = str(model.document.get("display_name") or model.name)
    launcher = () if words[at + 1] == IPYKERNEL else words[at : at + 2]
    argv = [python, *words[:at], "-m", SUPERVISOR, *launcher, *words[at + 2 :]]
    return {**model.document, "argv": argv, "display_name": f"{shown.removesuffix(' (ipykernel)')} ({name})"}


def _model(manager: KernelSpecManager, like: str | None) -> Kernelspec:
    """Return the kernelspec to copy. Raises UsageError if there is none, or if oomph cannot run in its Python."""
    if like is None:
        _check(sys.executable, "this Python")
        from ipykernel.kernelspec import RESOURCES, get_kernel_dict

        return Kernelspec("python3", Path(RESOURCES), get_kernel_dict())
    if not _VALID_NAME.fullmatch(like):
        raise UsageError(f"{like} is not the name of a kernelspec")
    folders = manager.find_kernel_specs()
    found = _found(like, folders)
    if found is None:
        raise UsageError(f"no kernelspec is named {like}: there are {', '.join(sorted(folders)) or 'none'}")
    if found.python:
        _check(found.python, f"the kernel {like} runs {found.python}, which")
    return found


def _check(python: str, subject: str) -> None:
    """Raise UsageError if ipykernel or oomph is missing in the Python that would run the kernel."""
    try:
        probed = run([python, "-c", _PROBE], os.environ, _PROBE_SECONDS)
    except OSError as error:
        raise UsageError(f"{python} cannot be started: {error.strerror}") from error
    missing = probed.output.decode(errors="replace").split()
    if probed.returncode != 0:
        raise UsageError(
            f"{python} ended with exit code {probed.returncode} when asked whether it has ipykernel and oomph"
        )
    if missing:
        raise UsageError(f"{subject} has no {missing[0]}: to install it, run {python} -m pip install 'oomph[notebook]'")


def _manager() -> KernelSpecManager:
    try:
        from jupyter_client.kernelspec import KernelSpecManager
    except ImportError:
        raise UsageError(f"ipykernel is not installed: {sys.executable} -m pip install 'oomph[notebook]'") from None
    return KernelSpecManager()


def _found(name: str, folders: Mapping[str, str]) -> Kernelspec | None:
    """Return the kernelspec of this name, or None if it is not among the folders that Jupyter found.

    Raises UsageError if it cannot be read, in which case nobody knows whose it is.
    """
    if name not in folders:
        return None
    found = _read(name, Path(folders[name]))
    if found is None:
        raise UsageError(
            f"{folders[name]}/kernel.json is damaged: to remove this kernelspec, run jupyter kernelspec remove {name}"
        )
    return found


def _read(name: str, folder: Path) -> Kernelspec | None:
    """Return the kernelspec in a folder, or None if it cannot be read."""
    try:
        document: Any = json.loads((folder / "kernel.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        document = _native(folder)
    except (OSError, ValueError):
        return None
    return Kernelspec(name, folder, document) if isinstance(document, dict) else None


def _native(folder: Path) -> Any:
    """Return the kernel.json that jupyter_client makes up for ipykernel's own folder, or None for any other folder."""
    try:
        from ipykernel.kernelspec import RESOURCES, get_kernel_dict
    except ImportError:
        return None
    return get_kernel_dict() if str(folder) == RESOURCES else None
