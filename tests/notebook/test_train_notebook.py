"""A notebook that trains under `oomph run` survives what a script survives: same weights, same labels."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest
from notebook_runs import SECONDS, NotebookRun, environ, finish, kill_at_step, printed, run, started, write

TRAINS = (
    "import keras, numpy as np\nkeras.utils.set_random_seed(1)",
    "%%time\nx = np.random.normal(size=(256, 8)).astype('float32')",
    "model = keras.Sequential([keras.Input((8,)), keras.layers.Dropout(0.2), keras.layers.Dense(1)])\n"
    "model.compile('adam', 'mse', jit_compile=False)",
    "history = model.fit(x, x[:, :1], epochs={epochs}, batch_size=8, verbose=2)\nlen(history.epoch)",
    "np.savez('{name}.npz', *[np.asarray(v) for v in [*model.variables, *model.optimizer.variables]])",
)


def training(folder: Path, name: str, epochs: int = 15) -> Path:
    cells = [cell.replace("{epochs}", str(epochs)).replace("{name}", name) for cell in TRAINS]
    return write(folder, *cells)


def bits(path: Path) -> str:
    """Return a digest of all arrays in a file."""
    import numpy as np

    with np.load(path) as arrays:
        return hashlib.sha256(b"".join(arrays[name].tobytes() for name in sorted(arrays))).hexdigest()


def undisturbed(folder: Path) -> str:
    """Return the digest of what the notebook saves when nbclient runs it, without oomph."""
    path = training(folder, "plain")
    words = [sys.executable, "-m", "jupyter", "execute", "--inplace", path.name]
    subprocess.run(words, cwd=folder, env=environ(), check=True, timeout=SECONDS, capture_output=True)
    return bits(folder / "plain.npz")


def test_killed_notebook_resumes_bit_identically(tmp_path: Path) -> None:
    wanted = undisturbed(tmp_path)
    training(tmp_path, "ours")
    with started(tmp_path, "--checkpoint-every=10", "nb.ipynb") as process:
        kill_at_step(process, tmp_path, 205)
        done = finish(process, tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    assert bits(tmp_path / "ours.npz") == wanted
    assert (done.summary["exactness"], done.summary["restarts"]) == ("verified", 1)
    (resumed,) = done.events("resumed")
    assert resumed.data["steps"] >= 200
    fit = done.outputs[3]
    assert "oomph: resumed fit" in printed(fit, "stderr")
    assert "Epoch 15/15" in printed(fit)
    assert fit[-1]["data"] == {"text/plain": "15"}


OOM = (
    "import keras, numpy as np\nkeras.utils.set_random_seed(1)\nkeras.config.set_floatx('float64')",
    "x = np.random.normal(size=(4096, 64)).astype('float64')\n"
    "model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(1024, 'tanh'),"
    " keras.layers.Dense(1024, 'tanh'), keras.layers.Dense(1)])\n"
    "model.compile(keras.optimizers.SGD(0.1), 'mse', jit_compile=False)",
    "model.fit(x, x[:, :1], epochs=2, batch_size=4096, shuffle=False, verbose=0);",
    "np.savez('{name}.npz', *[np.asarray(v) for v in model.variables])",
)


def train_in(folder: Path, name: str, megabytes: int) -> NotebookRun:
    folder.mkdir()
    write(folder, *[cell.replace("{name}", name) for cell in OOM])
    pool = {"TF_CPU_ALLOCATOR_USE_BFC": "1", "TF_CPU_BFC_MEM_LIMIT_IN_MB": str(megabytes)}
    return run(folder, "nb.ipynb", **pool)


@pytest.mark.slow
def test_out_of_memory_in_a_cell_is_recovered_without_a_long_report_in_the_notebook(tmp_path: Path) -> None:
    import numpy as np

    enough = train_in(tmp_path / "enough", "weights", 1000)
    assert enough.returncode == 0, enough.stderr[-3000:]
    short = train_in(tmp_path / "short", "weights", 112)
    assert short.returncode == 0, short.stderr[-3000:]
    assert short.summary["recoveries"] >= 1
    assert short.summary["exactness"] == "exact"
    with np.load(enough.folder / "weights.npz") as one, np.load(short.folder / "weights.npz") as other:
        assert max(float(np.abs(one[name] - other[name]).max()) for name in one) <= 1e-12
    told = printed(short.outputs[2], "stderr")
    assert "oomph: recovered" in told
    assert len(told) < 3000


# -- other verbs -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verb", "words", "shown"),
    [
        ("check", ["--json"], '"findings"'),
        pytest.param("plan", ["--batch=8,64", "--gpu=16GiB"], "oomph run nb.ipynb", marks=pytest.mark.slow),
    ],
)
def test_check_and_plan_accept_a_notebook(tmp_path: Path, verb: str, words: list[str], shown: str) -> None:
    training(tmp_path, "never", epochs=1)
    with started(tmp_path, *words, "nb.ipynb", verb=verb) as process:
        done = finish(process, tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    assert shown in done.stdout
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix != ".json") == ["nb.ipynb"]


@pytest.mark.slow
def test_rehearse_accepts_a_notebook(tmp_path: Path) -> None:
    training(tmp_path, "rehearsed", epochs=4)
    with started(tmp_path, "--faults=kill", "--steps=20", "nb.ipynb", verb="rehearse") as process:
        rehearsed = finish(process, tmp_path)
    assert rehearsed.returncode == 0, rehearsed.stdout + rehearsed.stderr[-3000:]
    assert not (tmp_path / "nb.oomph.ipynb").exists()


def test_training_in_a_kernel_of_a_supervised_program_is_labelled_unguarded(tmp_path: Path) -> None:
    training(tmp_path, "executed", epochs=1)
    done = run(tmp_path, "--", sys.executable, "-m", "jupyter", "execute", "--kernel_name=python3", "nb.ipynb")
    assert done.returncode == 0, done.stderr[-3000:]
    assert (done.summary["exactness"], done.summary["steps"]) == ("unguarded", 0)
    last = done.stderr.splitlines()[-1]
    assert last.startswith("oomph: unguarded: ")
    assert "trains in a Jupyter kernel" in last
    assert last.endswith("To have it resumed, run the notebook itself: oomph run nb.ipynb")
