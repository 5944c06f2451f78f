"""A folder that this user may not enter is refused in one sentence, by every verb that takes a path."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

_AS_A_USER = ("setpriv", "--bounding-set=-dac_override,-dac_read_search") if os.geteuid() == 0 else ()
"""Root may enter every folder, unless it gives up these capabilities."""


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
    ],
)
def test_locked_folder_is_refused_in_one_sentence(tmp_path: Path, words: tuple[str, ...], code: int) -> None:
    (tmp_path / "locked").mkdir()
    (tmp_path / "locked").chmod(0)
    done = subprocess.run(
        [*_AS_A_USER, sys.executable, "-m", "oomph", *words],
        cwd=tmp_path, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    (tmp_path / "locked").chmod(0o755)
    assert done.returncode == code
    (line,) = done.stderr.splitlines()
    assert words[-1] in line
    assert "permission denied" in line.lower()
