"""Commands in remedies are safe to paste."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from oomph.explain.diagnose import diagnose_log

LIBDEVICE = diagnose_log(b"Can't find libdevice directory ${CUDA_DIR}/nvvm/libdevice.")[0]


def paste(command: str, home: Path, prefix: Path) -> str:
    """Return what the command prints if Python, conda and CUDA are under this prefix."""
    (home / "bin").mkdir(parents=True)
    python = home / "bin" / "python"
    python.write_text(f"#!/bin/sh\necho {prefix}\n")
    python.chmod(0o755)
    path = f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}"
    command = command.replace("/usr/", f"{prefix}/none/")
    done = subprocess.run(
        ["sh", "-c", f"{command}; echo flags=$XLA_FLAGS"],
        env={"HOME": str(home), "PATH": path},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout


def test_libdevice_command_copies_the_file_only_when_it_exists(tmp_path: Path) -> None:
    command = LIBDEVICE.remedies[0].command
    assert "find / " not in command
    (tmp_path / "empty").mkdir()
    assert paste(command, tmp_path / "a", tmp_path / "empty") == "there is none\nflags=\n"
    assert not (tmp_path / "a" / "xla").exists()
    holds = tmp_path / "env" / "lib"
    holds.mkdir(parents=True)
    (holds / "libdevice.10.bc").write_text("bits")
    assert f"data_dir={tmp_path / 'b'}/xla" in paste(command, tmp_path / "b", tmp_path / "env")
    assert (tmp_path / "b/xla/nvvm/libdevice/libdevice.10.bc").read_text() == "bits"
