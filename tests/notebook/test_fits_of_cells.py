"""Fits in cells of kernels that are killed: what happens when the cells are run again, unchanged or edited."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import oomph
from oomph.journal.events import Resumed
from oomph.journal.journal import facts, read_journal
from oomph.protocol.reasons import reasons_from

pytest.importorskip("tensorflow")

IMPORTS = "import keras, numpy as np\nkeras.utils.set_random_seed(1)"
DATA = "x = np.linspace(0, 1, 320).reshape(80, 4)\ny = x[:, :2] * 3"
MODEL = (
    "model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(8, 'tanh'), keras.layers.Dense(2)])\n"
    "model.compile(keras.optimizers.Adam(0.01), 'mse', jit_compile=False)"
)
FIT = "history = model.fit(x, y, epochs=3, batch_size=8, verbose=0)"
MORE = "more = model.fit(x, y, epochs=2, batch_size=16, verbose=0)"
SHOW = "print('WEIGHTS', [float(np.sum(w.astype('float64') * 1e6)).hex() for w in model.get_weights()])"
CELLS = [(IMPORTS, "aa"), (DATA, "bb"), (MODEL, "cc"), (FIT, "dd"), (SHOW, "ee")]
DIES_AT = 17
"""In the second of three epochs of ten steps; the last checkpoint is two steps older."""


class Kernels:
    """Kernels that run one after the other, each in a fork."""

    def __init__(self, folder: Path) -> None:
        package, here = Path(oomph.__file__).parents[1], Path(__file__).parent
        environ = {k: v for k, v in os.environ.items() if not k.startswith("OOMPH_")}
        environ |= {"PYTHONPATH": f"{package}{os.pathsep}{here}", "TF_ENABLE_ONEDNN_OPTS": "0"}
        environ |= {"CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3", "IPYTHONDIR": str(folder / "ipython")}
        self._folder, self._count = folder, 0
        self._process = subprocess.Popen(
            [sys.executable, here / "forked_kernels.py"],
            cwd=folder, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def run(self, run_dir: Path | None, cells, attempt=1, die_at=None) -> tuple[int, str]:
        """Run a kernel; return its exit status and its output."""
        self._count += 1
        output = self._folder / f"{self._count}.txt"
        if run_dir is not None:
            run_dir.mkdir(exist_ok=True)
        order = {"run_dir": None if run_dir is None else str(run_dir), "attempt": attempt, "cells": cells}
        self._process.stdin.write(json.dumps({**order, "die_at": die_at, "output": str(output)}) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline()), output.read_text()

    def end(self) -> None:
        """End the process that forks the kernels."""
        self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    found = Kernels(tmp_path_factory.mktemp("kernels"))
    yield found
    found.end()


@pytest.fixture(scope="module")
def undisturbed(kernels):
    """Return the weights from a kernel that runs without oomph and is not killed."""
    status, output = kernels.run(None, CELLS)
    assert status == 0, output
    return weights(output)


@pytest.fixture(scope="module")
def killed(kernels, tmp_path_factory):
    """Return a function that copies the run directory of a kernel that was killed during the fit."""
    run_dir = tmp_path_factory.mktemp("killed") / "run"
    status, output = kernels.run(run_dir, CELLS, die_at=DIES_AT)
    assert status == -signal.SIGKILL, output
    assert "guarding fit at cell [4], line 1 (exact)" in output
    return lambda folder: Path(shutil.copytree(run_dir, folder / "run", symlinks=True))


def weights(output: str) -> str:
    """Return the weights that a kernel has printed."""
    (shown,) = [line for line in output.splitlines() if line.startswith("WEIGHTS")]
    return shown


def edited(number: int, old: str, new: str, ids: bool = True) -> list:
    """Return the cells with one of them edited; without their ids, as from a front end that sends none."""
    texts = [(text.replace(old, new) if n == number else text, name) for n, (text, name) in enumerate(CELLS, 1)]
    return [(text, name if ids else None) for text, name in texts]


def meant(run_dir: Path) -> list[str]:
    """Return the intended changes that a resumed fit reports."""
    (resumed,) = facts(read_journal(run_dir), Resumed)
    return [str(reason) for reason in reasons_from(resumed.meant)]


@pytest.mark.parametrize(
    "cells",
    [
        pytest.param(CELLS, id="unchanged"),
        pytest.param(edited(4, FIT, f"# longer\n{FIT};  # and a comment"), id="comments"),
        pytest.param(edited(4, FIT, f"%%time\n{FIT}"), id="%%time"),
        pytest.param(
            [CELLS[0], ("import os\nz = 3", "new"), *CELLS[1:3], CELLS[2], ("model.summary()", "s"), *CELLS[3:]],
            id="other cells",
        ),
    ],
)
def test_rerun_cells_give_bit_identical_weights(kernels, killed, undisturbed, tmp_path, cells):
    run_dir = killed(tmp_path)
    status, output = kernels.run(run_dir, cells, attempt=2)
    assert status == 0, output
    assert "resumed fit at cell [" in output
    assert weights(output) == undisturbed
    assert meant(run_dir) == []


@pytest.mark.parametrize("ids", [True, False])
def test_fit_with_more_epochs_resumes_and_says_so(kernels, killed, tmp_path, ids):
    run_dir = killed(tmp_path)
    status, output = kernels.run(run_dir, edited(4, "epochs=3", "epochs=5", ids), attempt=2)
    assert status == 0, output
    assert "resumed fit at cell [4], line 1" in output
    assert meant(run_dir) == ["the code of cell [4] changed (the call)", "epochs: 3 → 5"]


@pytest.mark.parametrize(
    ("number", "old", "new", "named"),
    [
        (3, "0.01", "0.001", "the code of cell [3] changed (model.compile())"),
        (2, "* 3", "* 4", "the code of cell [2] changed (y)"),
    ],
)
def test_resumed_fit_names_edits_to_the_model_and_data(kernels, killed, undisturbed, tmp_path, number, old, new, named):
    run_dir = killed(tmp_path)
    status, output = kernels.run(run_dir, edited(number, old, new), attempt=2)
    assert status == 0, output
    assert "resumed fit at cell [4], line 1" in output
    assert named in meant(run_dir)
    assert weights(output) != undisturbed


def test_fit_in_a_new_cell_trains_and_keeps_the_other_fits_checkpoint(kernels, killed, tmp_path):
    run_dir = killed(tmp_path)
    status, output = kernels.run(run_dir, [*CELLS[:3], ("model.fit(x, y, epochs=1, verbose=0)", "new")], attempt=2)
    assert status == 0, output
    assert "trains from the beginning: the checkpoints belong to a different fit, at cell [4], line 1" in output
    assert "resumed fit at cell [4], line 1" in kernels.run(run_dir, CELLS, attempt=3)[1]


def test_finished_fit_is_restored_once_and_trains_when_its_cell_runs_again(kernels, tmp_path):
    cells = [*CELLS[:4], (MORE, "ff"), CELLS[4]]
    _, output = kernels.run(None, cells)
    whole = weights(output)
    run_dir = tmp_path / "run"
    status, output = kernels.run(run_dir, cells, die_at=37)
    assert status == -signal.SIGKILL, output
    copy, skips = (Path(shutil.copytree(run_dir, tmp_path / name, symlinks=True)) for name in ("copy", "skips"))

    _, output = kernels.run(run_dir, cells, attempt=2)
    assert "fit at cell [4], line 1 was finished by an earlier attempt: result restored" in output
    assert "resumed fit at cell [5], line 1" in output
    assert weights(output) == whole

    assert "has not run again" not in output

    _, output = kernels.run(skips, [*CELLS[:3], (MORE, "ff"), CELLS[4]], attempt=2)
    assert "the state of fit at cell [4], line 1 includes training that has not run again in this kernel" in output
    assert weights(output) == whole

    _, output = kernels.run(copy, [*cells[:4], (FIT, "dd"), CELLS[4]], attempt=2)
    assert "fit at cell [4], line 1 was finished by an earlier attempt" in output
    assert "guarding fit at cell [5], line 1 (exact)" in output
    _, twice = kernels.run(None, [*cells[:4], (FIT, "dd"), CELLS[4]])
    assert weights(output) == weights(twice)


def killed_in_the_second_of(kernels, cells: list, tmp_path: Path) -> Path:
    """Kill a kernel in the second of two fits with the same statement, and resume it; return a copy of what it left."""
    _, output = kernels.run(None, cells)
    whole = weights(output)
    run_dir = tmp_path / "run"
    status, output = kernels.run(run_dir, cells, die_at=47)
    assert status == -signal.SIGKILL, output
    copy = Path(shutil.copytree(run_dir, tmp_path / "copy", symlinks=True))

    _, output = kernels.run(run_dir, cells, attempt=2)
    assert "fit at cell [4], line 1 was finished by an earlier attempt: result restored" in output
    assert "resumed fit at cell [6], line 1" in output
    assert weights(output) == whole
    return copy


OTHER = MODEL.replace("Dense(8", "Dense(6")


def test_what_was_done_to_the_model_before_a_resumed_fit_is_compared(kernels, tmp_path):
    """The restored state is that of the dead kernel: what another kernel did before would be lost without a word."""
    cells = [*CELLS[:4], (MORE, "mm"), CELLS[4]]
    status, output = kernels.run(tmp_path / "run", cells, die_at=37)
    assert status == -signal.SIGKILL, output
    _, output = kernels.run(None, cells)
    whole = weights(output)
    doubled = "model.set_weights([2 * w for w in model.get_weights()])"
    for number, added in enumerate(
        ["1", "again = model.fit(x, y, epochs=1, verbose=0)", "model.train_on_batch(x, y)", doubled]
    ):
        run_dir = Path(shutil.copytree(tmp_path / "run", tmp_path / f"copy-{number}", symlinks=True))
        status, output = kernels.run(run_dir, [*cells[:4], (added, "new"), *cells[4:]], attempt=2)
        assert status == 0, output
        assert "resumed fit at cell [6], line 1" in output
        assert weights(output) == whole
        said = "the model had been trained differently before this fit" in output
        (resumed,) = [each for each in facts(read_journal(run_dir), Resumed) if each.kind != "finished"]
        assert said == (number > 0), output
        assert ("other-origin" in [reason.code for reason in reasons_from(resumed.meant)]) == said


def test_two_cells_with_the_same_statement_keep_their_fits_apart(kernels, tmp_path):
    """A cell with the same statement as an earlier one is not taken for a rerun of it, so no fit is dropped."""
    cells = [*CELLS[:4], (OTHER, "gg"), (FIT, "hh"), CELLS[4]]
    copy = killed_in_the_second_of(kernels, cells, tmp_path)
    _, output = kernels.run(copy, [*cells[:4], CELLS[2], CELLS[3], *cells[4:]], attempt=2)
    assert "guarding fit at cell [6], line 1 (exact)" in output, "the first cell runs again, and trains"
    assert "resumed fit at cell [8], line 1" in output


def test_interrupted_fit_resumes_among_cells_with_the_same_text_and_no_ids(kernels, tmp_path):
    cells = [(text, None) for text, _ in [*CELLS[:4], (OTHER, ""), (FIT, ""), CELLS[4]]]
    copy = killed_in_the_second_of(kernels, cells, tmp_path)
    _, output = kernels.run(copy, [*cells[:4], *cells[3:]], attempt=2)
    assert "guarding fit at cell [5], line 1 (exact)" in output, "the first cell runs again, with its own model"
    assert "resumed fit at cell [7], line 1" in output


def test_finished_fits_return_although_an_earlier_end_state_was_not_kept(kernels, tmp_path):
    """The fit that the kernel died in left no checkpoint, and the first one left those from before its end."""
    dear = (
        "from oomph.resume.fit.checkpoints import FitCheckpoints as its; affords = its._can_afford_end\n"
        "def dear(self, named): self.end_state_was_too_dear = True\n"
        "its._can_afford_end = dear"
    )
    texts = [*(text for text, _ in CELLS[:3]), dear, FIT, "its._can_afford_end = affords", MORE, "model.fit(x, y)"]
    cells = [(text, None) for text in texts]
    run_dir = tmp_path / "run"
    status, output = kernels.run(run_dir, cells, die_at=42)
    assert status == -signal.SIGKILL, output

    _, output = kernels.run(run_dir, cells, attempt=2)
    assert "fit at cell [5], line 1 trains again from its last checkpoint" in output
    assert "fit at cell [7], line 1 was finished by an earlier attempt: result restored" in output


@pytest.mark.slow
def test_steps_of_a_fit_that_was_interrupted_are_named_once_its_cell_has_run_again(kernels, tmp_path):
    stops = ("class Stops(keras.callbacks.Callback):\n    def on_epoch_end(self, *_): raise KeyboardInterrupt", "st")
    interrupted = ("try: model.fit(x, y, epochs=3, batch_size=8, verbose=0, callbacks=[Stops()])\nexcept: pass", "dd")
    cells = [*CELLS[:3], stops, interrupted, (FIT, "dd"), CELLS[4]]
    run_dir = tmp_path / "run"
    status, output = kernels.run(run_dir, cells, die_at=27)
    assert status == -signal.SIGKILL, output

    _, output = kernels.run(run_dir, [*CELLS[:3], (FIT, "dd"), CELLS[4]], attempt=2)
    assert "resumed fit at cell [4], line 1" in output
    said = (
        "the state of fit at cell [4], line 1 includes training that has not run again in this kernel: fit at cell [5]"
    )
    assert said in output
