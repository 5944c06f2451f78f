"""A Keras that has renamed what oomph relies on: the script trains as in plain Python, and the user is told."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from oomph.keras_bridge.names.keras3 import KERAS
from oomph.keras_bridge.names.row import Feature, rows_of

LIBRARY = Path(importlib.util.find_spec("keras").origin).parent
PUBLIC = {
    "fit", "optimizer", "loss", "metrics", "variables", "path", "trainable", "history", "epoch", "callbacks", "apply",
    "built", "best", "wait", "result", "iterations", "update_state", "reset_state", "reduction", "compiled",
}  # fmt: skip
"""Such common words that code and prose cannot be told apart: if renamed everywhere, Keras itself would break."""
CLASSES = {row.name for row in rows_of(KERAS) if row.name[0].isupper()} - {"TensorFlowTrainer", "TFEpochIterator"}
"""Part of Keras' public interface, which registers them by name."""
RENAMED = sorted({row.name for row in rows_of(KERAS)} - PUBLIC - CLASSES)
_IMPORT = re.compile(r"\s*(?:from|import) ")  # of a module, whose name does not change
MODULES = ("data_adapter",)
"""Also the names of modules, whose names do not change."""
FAST = ("_initial_epoch", "_push_writer")


def renamed(folder: Path, name: str) -> Path:
    """Return a copy of Keras in which this name is replaced by another in every file; the rest is linked."""
    before = r"(?<=self\.)" if name in MODULES else r"(?<!\w)"
    word = re.compile(rf"{before}{re.escape(name)}(?!\w)")
    for here, _, files in os.walk(LIBRARY):
        there = folder / "keras" / Path(here).relative_to(LIBRARY)
        there.mkdir(parents=True)
        for file in files:
            if file.endswith(".py"):
                text = (Path(here) / file).read_text()
                if word.search(text):
                    other = f"{name}_of_another"
                    lines = [each if _IMPORT.match(each) else word.sub(other, each) for each in text.splitlines()]
                    (there / file).write_text("\n".join(lines) + "\n")
                    continue
            (there / file).symlink_to(Path(here) / file)
    return folder


@pytest.fixture(scope="module")
def plain(shared):
    return shared.undisturbed("varied.py")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in RENAMED]
)
def test_missing_keras_name_disables_only_the_feature_that_needs_it(work, tmp_path, plain, name):
    other = renamed(tmp_path / "other", name)
    env = {"PYTHONPATH": str(other)}
    work.script("varied.py")
    alone = work.plain("varied.py", "alone.npz", env=env)
    ours = work.oomph("varied.py", "ours.npz", env=env)
    if alone.returncode:  # Keras itself needs the name: the script fails under oomph just as it does without it
        assert (ours.returncode, ours.own.splitlines()[-1]) == (alone.returncode, alone.stderr.splitlines()[-1])
        return
    assert (ours.returncode, ours.stdout) == (0, "done\n"), ours.stderr[-3000:]
    with np.load(work.folder / "ours.npz") as found, np.load(work.folder / "alone.npz") as expected:
        for key in expected.files:
            np.testing.assert_array_equal(found[key], expected[key])
    unguarded = [line for line in ours.said if "the script runs unguarded" in line]
    switched_off = [line for line in ours.said if "is switched off" in line]
    if any(Feature.GUARD in row.feature for row in rows_of(KERAS) if row.name == name):
        assert (len(unguarded), switched_off) == (1, [])
    else:
        assert not unguarded
        assert switched_off
        assert all(f"{name}: " in line for line in switched_off), switched_off
    shutil.rmtree(other)


@pytest.mark.slow
def test_keras_with_every_expected_name_is_fully_guarded(work, plain):
    work.script("varied.py")
    ours = work.oomph("varied.py", "ours.npz")
    assert not [line for line in ours.said if "unguarded" in line or "switched off" in line]
    assert ours.events("guard-installed")
