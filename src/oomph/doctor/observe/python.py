"""Observes the Python that runs the script, which may not be oomph's own: its version and where it finds packages."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from oomph.doctor.snapshot import Python
from oomph.errors import ExamineError
from oomph.files.opening import open_regular
from oomph.process.child import run
from oomph.process.own_process import without_own_variables

_ASK = """import sys
sys.path[:] = filter(None, sys.path)  # the working directory may hold a json.py
import json
version, name = sys.version_info[:3], sys.implementation.name
print(json.dumps([sys.executable, version, name, sys.prefix, sys.base_prefix, sys.path]))"""
_SECONDS = 10


def observe_python(executable: str, environ: Mapping[str, str]) -> Python:
    """Observe a Python. Raises ExamineError if it does not answer."""
    name, version, implementation, prefix, base_prefix, path = (
        _own() if executable == sys.executable and not sys.flags.isolated else _ask(executable, environ)
    )
    return Python(
        executable=name,
        version=(version[0], version[1], version[2]),
        implementation=implementation,
        prefix=prefix,
        base_prefix=base_prefix,
        path=tuple(entry for entry in path if entry and not entry.endswith(".zip")),
        tag=f"cp{version[0]}{version[1]}" if implementation == "cpython" else implementation,
        pip=any((Path(entry) / "pip").is_dir() for entry in path if entry),
        uv=shutil.which("uv", path=environ.get("PATH")) is not None,
        moved_from=_moved_from(Path(prefix)) if prefix != base_prefix else "",
    )


def _own() -> list[Any]:
    return [
        sys.executable,
        sys.version_info[:3],
        sys.implementation.name,
        sys.prefix,
        sys.base_prefix,
        sys.path[1:] if _begins_with_a_script() else sys.path,
    ]


def _begins_with_a_script() -> bool:
    """True if sys.path[0] is the folder of the `oomph` command, which is not on the script's path."""
    return not getattr(sys.flags, "safe_path", False)


def _ask(executable: str, environ: Mapping[str, str]) -> list[Any]:
    try:
        done = run([executable, "-c", _ASK], without_own_variables(environ), _SECONDS)
        answer: list[Any] = json.loads(done.output.decode(errors="replace").splitlines()[-1])
    except (OSError, ValueError, IndexError) as error:
        reason = (error.strerror or str(error)) if isinstance(error, OSError) else "unexpected output"
        raise ExamineError(f"the Python {executable} cannot be queried: {reason}") from error
    return answer


def _moved_from(prefix: Path) -> str:
    """Find the folder in which this virtual environment was created, using its scripts; empty if it has not moved.

    The first line of bin/pip contains the path of the Python that the environment was created with.
    """
    for name in ("pip", "pip3", "tensorboard"):
        try:
            with open_regular(prefix / "bin" / name) as file:
                first = file.readline(4096)
        except OSError:
            continue
        folder = Path(os.fsdecode(first[2:].strip())).parent
        if first.startswith(b"#!/") and folder.name == "bin":
            named = folder.parent
            same = os.path.realpath(named) == os.path.realpath(prefix)
            return "" if same else str(named)
    return ""
