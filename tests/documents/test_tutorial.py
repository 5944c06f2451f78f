"""The tutorial as it is read: a training is killed, stopped with Ctrl-C, and resumed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from documented import ROOT, blocks, lines_of

LIMIT = 100
COMMANDS = [line for block in blocks("sh") if block.document.stem == "first-run" for line in lines_of(block)]


def command(beginning: str) -> str:
    """Return the command of the tutorial that begins like this."""
    return next(line for line in COMMANDS if line.startswith(beginning))


SETTINGS = [command("export CUDA"), command("export TF_CPU")]


class Training:
    """A command of the tutorial while it runs."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process, self._log = process, log

    def wait_until_it_says(self, text: str) -> None:
        end = time.monotonic() + LIMIT
        while text not in self._log.read_text():
            assert self._process.poll() is None, self._log.read_text()
            assert time.monotonic() < end, self._log.read_text()
            time.sleep(0.05)

    def stop(self) -> int:
        """Press Ctrl-C, and return the exit code."""
        self._process.send_signal(signal.SIGINT)
        return self._process.wait(LIMIT)


def shell(line: str) -> list[str]:
    return ["bash", "-c", "; ".join([*SETTINGS, f"exec {line}"])]


@contextmanager
def running(line: str, folder: Path, environ: dict[str, str]) -> Iterator[Training]:
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(shell(line), cwd=folder, env=environ, stdout=output, stderr=subprocess.STDOUT)
    try:
        yield Training(process, log)
    finally:
        process.terminate()
        process.wait(LIMIT)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_training_of_the_tutorial_survives_a_kill_and_resumes_after_ctrl_c(tmp_path):
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("OOMPH_", "TF_"))}
    environ = inherited | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    with running(command("oomph run --checkpoint-every"), tmp_path, environ) as training:
        training.wait_until_it_says("recovered in")
        training.wait_until_it_says("epoch  4 ")  # four steps after a checkpoint, six before the next
        subprocess.run(["bash", "-c", command("kill -9")], cwd=tmp_path, check=True, timeout=LIMIT)
        training.wait_until_it_says("was killed by SIGKILL")
        training.wait_until_it_says("repeated steps gave the same results")
        assert training.stop() == 130
    with running(command("oomph run --resume"), tmp_path, environ) as training:
        training.wait_until_it_says("resumed fit at digits.py:")
        assert training.stop() == 130
