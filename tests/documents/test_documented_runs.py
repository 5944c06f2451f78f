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
    "pip install": "needs the network; the packages of the development environment are the same",
    "make demo": "test_transcript.py runs the demo, tests/test_install_demo.py the installation",
    "python3 -m venv": "the environment of the tests stands for it",
    "kill -9": "needs a training that is running: tests/end_to_end/test_killed.py",
    "python -m pytest": "the tests run it themselves",
    "oomph watch": "ends when somebody presses q: tests/watch",
    "oomph rehearse train.py": "takes minutes: tests/end_to_end/test_rehearsed.py; ci.md has two faults",
    "oomph kernel install": "installs outside of the folder: tests/notebook",
}
"""The beginnings of commands that are not run here, and why."""
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


def is_run(block: Block) -> bool:
    """True unless another test runs the block; test_articles.py runs the page about the articles."""
    return block.document.stem != "articles" and not any(line.startswith(tuple(NOT_RUN)) for line in lines_of(block))


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
    tell = folder / "tell-me.sh"
    tell.write_text("#!/bin/sh\n")
    tell.chmod(0o755)
    shutil.copytree(ROOT / "examples", folder / "examples")
    run = folder / ".oomph/runs/20261121-082338-digits"
    words = ["oomph", "run", f"--run-dir={run}", "train.py"]
    subprocess.run(words, cwd=folder, env=surroundings, check=True, timeout=LIMIT, capture_output=True)
    shutil.copytree(run, folder / "out/baseline")
    return folder


def made_runnable(line: str) -> str:
    """Put this folder's names in place of those that the documents invent."""
    run = ".oomph/runs/20261121-082338-digits"
    replaced = line.replace("/shared/runs/net-7", "net-7").replace("=60 oomph", "=600 oomph")
    if "hooks.example.org" in line or "notify-send" in line:
        return "true"  # an address and a program of the reader's
    return replaced.replace(" RUN ", f" {run} ")


@pytest.mark.parametrize("block", [block for block in blocks("sh") if is_run(block)], ids=lambda block: block.name)
def test_documented_commands_run(block: Block, folder, surroundings, tmp_path):
    here = tmp_path / "here"
    shutil.copytree(folder, here, symlinks=True)
    shell = "\n".join(f"{made_runnable(line)} || exit $?" for line in lines_of(block))
    done = subprocess.run(
        ["bash", "-c", shell], cwd=here, env=surroundings, timeout=LIMIT, capture_output=True, text=True
    )
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
