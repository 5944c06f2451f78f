"""Problems that are not the machine's fault: oomph stays out of the way."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from oomph.files.user_code import PACKAGE

_TEXT = (Path(__file__).parent / "scripts" / "fails.py").read_text()
ERRORS = re.findall(r'^    "([a-z_ ]+)": lambda', _TEXT, re.MULTILINE)
NOISE = r"WARNING: All log|[IWE]\d{4} [\d:.]+ +\d+ "


@pytest.fixture(scope="module")
def errors(shared):
    """The output for every error in fails.py, plainly and under oomph."""
    shared.script("fails.py")
    both = []
    for run in (shared.plain, shared.oomph):
        ended = run("fails.py", stderr=subprocess.STDOUT)
        # see terminal/console.py
        lines = re.sub(r"^\n(?=oomph: )", "", ended.stdout, flags=re.MULTILINE).splitlines(True)
        text = "".join(line for line in lines if not re.match(rf"oomph: |{NOISE}", line))
        parts = re.split(r"^== (.*)\n", text, flags=re.MULTILINE)[1:]
        both.append((ended, dict(zip(parts[::2], parts[1::2], strict=True))))
    return both


def comparable(text: str) -> str:
    """Remove the running numbers that TensorFlow gives to traced functions and datasets."""
    return re.sub(r"(__inference_\w+?|Dataset\w*:|/job:\S*)_?\d+", r"\1", text)


DIFFERENT = {
    "a layer while it runs": "the definition of the failing node lists frames of oomph instead of Keras' trainer",
    "an unknown argument": "another line of Keras' own error handler is shown",
    "train_on_batch": "Keras does not filter this traceback, and it goes through oomph",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "error",
    [
        pytest.param(error, marks=pytest.mark.xfail(reason=DIFFERENT[error])) if error in DIFFERENT else error
        for error in ERRORS
    ],
)
def test_script_errors_look_like_plain_python_errors(errors, error):
    (_, plain), (_, ours) = errors
    assert "Traceback" in plain[error], "this was to fail"
    assert comparable(ours[error]) == comparable(plain[error])


@pytest.mark.parametrize("error", DIFFERENT)
def test_error_message_matches_plain_python(errors, error):
    (_, plain), (_, ours) = errors
    wanted, shown = (re.findall(r"^\w[\w.]*Error: .*", part[error], re.MULTILINE) for part in (plain, ours))
    assert wanted == shown
    assert wanted


def test_script_error_stops_the_run_without_a_restart(errors):
    (plain, _), (ours, _) = errors
    assert plain.returncode == ours.returncode == 1
    assert ours.summary["restarts"] == 0
    assert [event.data["type"] for event in ours.events("uncaught-exception")] == ["ValueError"]


@pytest.mark.parametrize(
    "text",
    [
        "import sys; print('three'); sys.exit(3)",
        "raise RuntimeError('its own')",
        "this is no Python",
        "import tensorflow_is_not_here",
    ],
)
def test_script_without_training_exits_as_in_plain_python(work, text):
    work.write(text)
    plain, ours = work.plain("train.py"), work.oomph("train.py")
    assert (ours.returncode, ours.stdout, ours.own) == (plain.returncode, plain.stdout, plain.stderr)
    assert ours.summary["restarts"] == 0


def test_missing_script_is_reported_in_one_sentence(work):
    ours = work.oomph("missing.py")
    assert ours.returncode == 2
    assert ours.stderr.count("\n") == 1
    assert "no such script: missing.py" in ours.stderr
    assert not ours.folder.exists()


def test_another_python_is_suggested_if_keras_is_missing(work):
    bare = work.folder / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True, timeout=120)
    work.write("print('first', flush=True)\nimport keras\n")
    python = str(bare / "bin" / "python")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ours = work.oomph(f"--python={python}", "train.py", env={"PATH": path})
    assert (ours.returncode, ours.stdout) == (1, "first\n")
    assert "ModuleNotFoundError: No module named 'keras'" in ours.own
    advice = [line for line in ours.said if "has no keras" in line]
    assert len(advice) == 1
    assert python in advice[0]
    assert str(Path(sys.executable).parent) in advice[0]


def test_script_receives_its_entire_standard_input(work):
    work.write(
        "import keras, numpy as np, sys\n"
        "first = input('how many? ')\n"
        "model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])\n"
        "model.compile('sgd', 'mse')\n"
        "model.fit(np.zeros((4, 2)), np.zeros((4, 1)), epochs=int(first), verbose=0)\n"
        "print(len(model.history.epoch), repr(sys.stdin.read()))\n"
    )
    ours = work.oomph("train.py", input=b"2\nthe rest\n\xc3\xa4")
    assert (ours.returncode, ours.stdout) == (0, "how many? 2 'the rest\\nä'\n")


def test_script_with_tensorflow_but_without_keras_runs_unchanged(work):
    work.write("import tensorflow as tf\nprint(int(tf.reduce_sum(tf.ones((3,)))))\n")
    ours = work.oomph("train.py")
    assert (ours.returncode, ours.stdout) == (0, "3\n")
    assert len(ours.said) == 2, "where it runs, and that it has finished"


@pytest.fixture(scope="module")
def own_keras(tmp_path_factory):
    """Create a copy of Keras in a folder for PYTHONPATH, so that single files can be changed."""
    spec = importlib.util.find_spec("keras")
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(Path(spec.origin).parent, folder / "keras", copy_function=os.symlink)
    return folder


def changed(folder: Path, name: str, old: str, new: str) -> dict[Path, str]:
    """Change one file in the copy; return what has to be restored afterwards."""
    path = folder / "keras" / "src" / name
    text = path.read_text()
    assert old in text
    path.unlink()
    path.write_text(text.replace(old, new))
    return {path: text}


@pytest.mark.parametrize(
    ("changes", "missing"),
    [
        (
            {"trainers/epoch_iterator.py": ("_enumerate_iterator", "_enumerate")},
            "no TFEpochIterator._enumerate_iterator",
        ),
        (
            {"backend/tensorflow/trainer.py": ("make_train_function(self, force=False)", "make_train_function(self)")},
            "make_train_function expects different arguments",
        ),
        pytest.param(
            {"backend/tensorflow/trainer.py": ("TFEpochIterator", "OtherIterator")},
            "no trainer.TFEpochIterator",
            marks=pytest.mark.slow,
        ),
    ],
    ids=["iterator", "arguments", "class"],
)
def test_unfamiliar_keras_is_reported_and_runs_unguarded(work, own_keras, changes, missing):
    kept: dict[Path, str] = {}
    for name, (old, new) in changes.items():
        kept |= changed(own_keras, name, old, new)
    try:
        work.write(
            "import keras, numpy as np\n"
            "model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])\n"
            "model.compile('sgd', 'mse')\n"
            "print(len(model.fit(np.zeros((4, 2)), np.zeros((4, 1)), epochs=2, verbose=0).epoch), keras.__file__)\n"
        )
        ours = work.oomph("train.py", env={"PYTHONPATH": str(own_keras)})
    finally:
        for path, text in kept.items():
            path.write_text(text)
    assert (ours.returncode, ours.stdout) == (0, f"2 {own_keras / 'keras' / '__init__.py'}\n"), ours.stderr[-3000:]
    said = [line for line in ours.said if "unguarded" in line]
    assert len(said) == 2  # immediately, and again at the end
    assert [line for line in said if missing not in line] == []
    assert [event.data["reason"] for event in ours.events("guard-failed")] == [missing]
    assert ours.events("guard-installed") == []


def test_single_interrupt_reaches_the_script_and_stops_the_run(work):
    work.script("stubborn.py")
    running = work.start("--checkpoint-every=10", "stubborn.py", "--give-in")
    running.wait_for((work.folder / "asleep").exists)
    os.kill(running.process.pid, signal.SIGINT)
    ours = running.finish(seconds=60)
    assert (ours.returncode, ours.stdout) == (130, "interrupted\n")
    assert ours.own.rstrip().endswith("KeyboardInterrupt")
    assert f'File "{PACKAGE}' not in ours.own, "no frame of ours in its traceback"
    assert ours.summary["restarts"] == 0
    assert ours.summary["checkpoints"]["count"] >= 1
    assert json.loads((ours.folder / "run.json").read_text())["status"] == "failed"


def test_custom_step_error_is_not_reported_as_a_guard_failure(work):
    work.write(
        "import keras, numpy as np\n"
        "class Own(keras.Sequential):\n"
        "    def train_step(self, data): raise ValueError('shapes (3,) and (4,) differ')\n"
        "model = Own([keras.Input((2,)), keras.layers.Dense(1)])\n"
        "model.compile('sgd', 'mse')\n"
        "model.fit(np.zeros((4, 2)), np.zeros((4, 1)), verbose=0)\n"
    )
    ours = work.oomph("train.py")
    assert ours.returncode == 1
    assert ours.own.rstrip().endswith("ValueError: shapes (3,) and (4,) differ")
    assert not [line for line in ours.said if "guard failed" in line or "plain Keras" in line]


@pytest.mark.slow
def test_second_oomph_is_refused_and_two_interrupts_stop_the_script(work):
    work.script("stubborn.py")
    running = work.start("--checkpoint-every=10", "stubborn.py")
    running.wait_for((work.folder / "asleep").exists)
    second = work.oomph("stubborn.py")
    assert second.returncode == 2
    assert second.stderr.count("\n") == 1
    assert "in use by another oomph run" in second.stderr
    pid = running.script_pid(1)
    os.kill(running.process.pid, signal.SIGINT)
    steps = running.progress().steps
    running.wait_for_step(steps + 5)  # the script continues
    os.kill(running.process.pid, signal.SIGINT)
    ours = running.finish(seconds=60)
    assert ours.stdout.startswith("interrupted\n")
    assert ours.returncode in (128 + signal.SIGTERM, 128 + signal.SIGKILL, 130)
    assert ours.summary["restarts"] == 0
    assert not Path(f"/proc/{pid}").exists()
