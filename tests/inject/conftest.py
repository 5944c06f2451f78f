"""Starts Python the way `oomph run` does, without a supervisor around it."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import oomph
from oomph.protocol.handover import Guarding, Handover

PACKAGE = Path(oomph.__file__).parent
Start = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir()
    return tmp_path / "run"


@pytest.fixture
def start(tmp_path: Path, run_dir: Path) -> Start:
    """Run a script with oomph injected, or plainly with `injected=False`."""
    count = iter(range(100))

    def start(text: str, *words: str, injected: bool = True, guard: bool = True, **extra: str) -> Any:
        name = f"script{next(count)}.py" if injected else "plain.py"
        (tmp_path / name).write_text(textwrap.dedent(text))
        environ = {k: v for k, v in os.environ.items() if not k.startswith(("OOMPH_", "PYTHON"))} | extra
        if injected:
            path = [str(PACKAGE / "inject" / "site"), *filter(None, [extra.get("PYTHONPATH")])]
            environ["PYTHONPATH"] = os.pathsep.join(path)
            Handover(package=str(PACKAGE), run_dir=str(run_dir), guarding=Guarding(guard=guard)).write(environ)
        return subprocess.run(
            [sys.executable, *words, name], cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=60
        )

    return start
