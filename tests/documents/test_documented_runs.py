"""The commands and the Python of the documents do run, in a folder with the files that the documents assume."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from documented import ROOT, Block, blocks, lines_of

LIMIT = 240
SURROUNDINGS = Path(__file__).with_name("surroundings.py")
NOT_RUN = {
    "pip install": "needs the network; tests/package installs the wheel with what is there",
    "make demo": "test_transcript.py runs the demo, tests/test_install_demo.py the installation",
    "python3 -m venv": "the environment of the tests stands for it",
    "source .venv/bin/activate": "likewise",
    "kill -9": "needs a training that is running: test_tutorial.py",
    "python -m pytest": "the tests run it themselves",
    "oomph watch --serve": "serves until Ctrl-C: tests/watch",
    "oomph run --engine ray": "needs a cluster: tests/end_to_end/test_ray.py",
    "oomph run --store s3:": "needs a bucket: tests/run/store/test_s3.py",
    "oomph run --resume --store s3:": "likewise",
    "oomph rehearse train.py": "takes minutes: tests/end_to_end/test_rehearsed.py; ci.md has two faults",
}
"""The beginnings of commands that are not run here, and why."""
INSTEAD = {
    "/shared/runs/net-7": "net-7",  # the folder above it has to exist
    "=60 oomph": "=600 oomph",  # what this train.py needs
    " RUN ": " .oomph/runs/20261121-082338-digits ",
    "https://hooks.example.org": "http://127.0.0.1:9",  # where nobody listens
    "oomph kernel install": "HOME=$PWD oomph kernel install --user",  # not into the environment of the tests
}
"""What stands for the names that the documents invent."""
FAILS = {"python examples/digits.py": 1}
"""Commands that are meant to fail, as they do in the text, with their exit code."""
SCRIPT = """
import argparse
import keras, numpy as np

options = argparse.ArgumentParser()
options.add_argument("--epochs", type=int, default=2)
epochs = options.parse_args().epochs
keras.utils.set_random_seed(0)
images = np.random.default_rng(0).random((64, 8)).astype("float32")
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(4, "softmax")])
model.compile("sgd", "sparse_categorical_crossentropy", jit_compile=False)
model.fit(images, np.arange(64) % 4, batch_size=4, epochs=min(epochs, 3), verbose=0)
"""
LOG = "tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when allocating tensor with shape[256,8]\n"

pytestmark = pytest.mark.slow


def run_here(block: Block) -> list[str]:
    """Return the commands of a block, without those of NOT_RUN. test_articles.py runs the page about the articles."""
    here = [line for line in lines_of(block) if not line.startswith(tuple(NOT_RUN))]
    return [] if block.document.stem == "articles" else here


@pytest.fixture(scope="module")
def surroundings() -> dict[str, str]:
    """The environment of a shell in which TensorFlow runs on the CPU, and `oomph` and `python` are the tests' own."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("OOMPH_", "TF_"))}
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return inherited | {"PATH": path, "CUDA_VISIBLE_DEVICES": "-1", "TF_ENABLE_ONEDNN_OPTS": "0", "TERM": "dumb"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory, surroundings) -> Path:
    """A folder with the files that the documents assume, and a finished run."""
    folder = tmp_path_factory.mktemp("documented")
    (folder / "train.py").write_text(SCRIPT)
    (folder / "train.log").write_text(LOG)
    cell = {"cell_type": "code", "id": "a", "metadata": {}, "outputs": [], "execution_count": None, "source": "x = 1"}
    book = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (folder / "train.ipynb").write_text(json.dumps(book))
    (folder / "bin").mkdir()
    for program in ("tell-me.sh", "bin/notify-send", "bin/sbatch", "bin/kubectl"):
        (folder / program).write_text("#!/bin/sh\n")
        (folder / program).chmod(0o755)
    shutil.copytree(ROOT / "examples", folder / "examples")
    run = folder / ".oomph/runs/20261121-082338-digits"
    words = ["oomph", "run", f"--run-dir={run}", "train.py"]
    subprocess.run(words, cwd=folder, env=surroundings, check=True, timeout=LIMIT, capture_output=True)
    shutil.copytree(run, folder / "out/baseline")
    return folder


def made_runnable(line: str) -> str:
    """Put this folder's names in place of those that the documents invent."""
    for invented, here in INSTEAD.items():
        line = line.replace(invented, here)
    return line


def test_every_reason_for_not_running_a_command_is_needed():
    written = [line for block in blocks("sh") for line in lines_of(block)]
    assert [start for start in NOT_RUN if not any(line.startswith(start) for line in written)] == []


@pytest.mark.parametrize("block", [block for block in blocks("sh") if run_here(block)], ids=lambda block: block.name)
def test_documented_commands_run(block: Block, folder, surroundings, tmp_path):
    here = tmp_path / "here"
    shutil.copytree(folder, here, symlinks=True)
    shell = "\n".join(f"{made_runnable(line)} || exit $?" for line in run_here(block))
    environ = surroundings | {"PATH": f"{here / 'bin'}:{surroundings['PATH']}"}
    done = subprocess.run(["bash", "-c", shell], cwd=here, env=environ, timeout=LIMIT, capture_output=True, text=True)
    expected = next((code for line, code in FAILS.items() if line in block.text), 0)
    assert done.returncode == expected, f"{shell}\n{done.stdout[-1500:]}\n{done.stderr[-3000:]}"


@pytest.mark.parametrize("block", blocks("python"), ids=lambda block: block.name)
def test_documented_python_runs(block: Block, surroundings, tmp_path):
    tests = [line[4:].partition("(")[0] for line in block.text.splitlines() if line.startswith("def test_")]
    calls = "".join(f"{name}()\n" for name in tests)
    (tmp_path / "documented_block.py").write_text(f"{SURROUNDINGS.read_text()}\n{block.text}\n{calls}")
    done = subprocess.run(
        [sys.executable, "documented_block.py"],
        cwd=tmp_path,
        env=surroundings,
        timeout=LIMIT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
