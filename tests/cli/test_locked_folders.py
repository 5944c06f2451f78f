"""Every verb that takes a path rejects a folder that the user may not enter, with a one-line error."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

_AS_A_USER = ("setpriv", "--bounding-set=-dac_override,-dac_read_search") if os.geteuid() == 0 else ()
"""Root may enter any folder unless it gives up these capabilities."""


@pytest.mark.skipif(bool(_AS_A_USER) and shutil.which("setpriv") is None, reason="root needs setpriv")
@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("run", "locked"), 2),
        (("run", "locked/train.py"), 2),
        (("check", "locked"), 2),
        (("plan", "--gpu=24GiB", "locked/train.py"), 2),
        (("explain", "locked"), 3),
        (("explain", "locked/train.log"), 3),
        (("explain", "--decisions", "locked"), 3),
        (("runs", "locked"), 3),
        (("runs", "prune", "locked"), 3),
    ],
)
def test_locked_folder_is_rejected_with_a_one_line_error(tmp_path: Path, words: tuple[str, ...], code: int) -> None:
    done = _beside_a_locked_folder(tmp_path, words)
    assert done.returncode == code
    (line,) = done.stderr.splitlines()
    assert words[-1] in line
    assert "permission denied" in line.lower()


@pytest.mark.skipif(bool(_AS_A_USER) and shutil.which("setpriv") is None, reason="root needs setpriv")
@pytest.mark.parametrize("run", ["locked", "locked/run"])
def test_run_in_a_locked_folder_is_not_mistaken_for_a_new_one(tmp_path: Path, run: str) -> None:
    (tmp_path / "train.py").write_text("raise SystemExit(5)")
    done = _beside_a_locked_folder(tmp_path, ("run", f"--resume={run}", "train.py"))
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert f"--resume={run} cannot be entered: permission denied" in line


def _beside_a_locked_folder(folder: Path, words: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    (folder / "locked").mkdir()
    (folder / "locked").chmod(0)
    try:
        return subprocess.run(
            [*_AS_A_USER, sys.executable, "-m", "oomph", *words],
            cwd=folder, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
    finally:
        (folder / "locked").chmod(0o755)
