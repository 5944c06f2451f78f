"""`oomph check` as users run it: exit codes, JSON, how much of the script runs, and what it leaves behind."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
THROUGH_THE_COMMAND = sorted((FOLDER / "cases").glob("*.py"))[3::8][:20]
MARKS = {"wrong": "# RIGHT", "right": "# WRONG"}
SECONDS = 120
HEAD = """
import atexit, numpy as np, keras
atexit.register(lambda: open("after", "w").close())
rng = np.random.default_rng(0)
x = rng.normal(size=(200, 4)).astype("float32")
y = (x[:, 0] > 0).astype("int32")
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(8, activation="relu"), LAST])
model.compile("adam", "sparse_categorical_crossentropy")
"""
GOOD = HEAD.replace("LAST", 'keras.layers.Dense(2, activation="softmax")')
FIT = """
try:
    model.fit(x, LABELS, epochs=2)
except BaseException:
    pass
finally:
    open("after", "w").close()
"""


def check(folder, text, *options):
    (folder / "train.py").write_text(text)
    return subprocess.run(
        [sys.executable, "-m", "oomph", "check", *options, "train.py"],
        cwd=folder, capture_output=True, text=True, timeout=SECONDS,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""},
    )  # fmt: skip


def test_mistake_is_reported_with_its_line_and_the_script_stops(tmp_path):
    done = check(tmp_path, GOOD + FIT.replace("LABELS", "y + 1"))
    assert done.returncode == 1
    assert "ERROR   label-out-of-range (CHK401): labels in y range from 1 to 2" in done.stdout
    assert "train.py:11: 1 error" in " ".join(done.stdout.split())
    assert not (tmp_path / "after").exists()


@pytest.mark.slow
def test_optimizer_with_slots_on_two_replicas_is_not_an_error(tmp_path):
    done = check(tmp_path, (FOLDER / "healthy" / "two_replicas.py").read_text())
    assert done.returncode == 0, done.stdout
    assert "step-fails" not in done.stdout


def test_healthy_script_exits_with_0_and_json_has_every_key(tmp_path):
    done = check(tmp_path, GOOD + FIT.replace("LABELS", "y") + "model.fit(x, y)\n", "--json")
    document = json.loads(done.stdout)
    assert done.returncode == 0
    assert document["findings"] == []
    assert {"schema", "machine", "memory", "carried", "broken_rules"} <= set(document)
    assert document["not_looked_at"].startswith(
        "only the training call at train.py:11 was examined, not the fit at line 16"
    )
    assert [each["state"] for each in document["carried"]] == ["exact", "exact", "partly"]  # seeds: none are set
    assert not (tmp_path / "after").exists()


@pytest.mark.parametrize("text", ["print(1)\n", "raise ValueError('gone')\n", "import nothing_at_all\n", "1 +\n"])
def test_script_without_training_is_not_checked(tmp_path, text):
    done = check(tmp_path, text)
    assert done.returncode == 3
    assert "nothing was checked" in done.stderr
    assert "oomph/src" not in done.stderr, "no traceback of ours"


DATA = {
    "arrays": "data = x, y",
    "shuffled": "data = (tf.data.Dataset.from_tensor_slices((x, y)).shuffle(200).batch(16),)",
    "seeded": "data = (tf.data.Dataset.from_tensor_slices((x, y)).shuffle(200, seed=3).repeat(2).batch(16),)",
    "augmented": """jitter = keras.layers.GaussianNoise(0.1, seed=1)
rows = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(200)
data = (rows.map(lambda a, b: (jitter(a, training=True), b)).batch(16),)""",
    "zipped": """rows = tf.data.Dataset.zip((tf.data.Dataset.from_tensor_slices(x).shuffle(200, seed=5),
                           tf.data.Dataset.from_tensor_slices(y).shuffle(200, seed=5)))
data = (rows.batch(16),)""",
}


def test_custom_loop_is_checked_at_its_first_step(tmp_path):
    done = check(tmp_path, (FOLDER / "healthy" / "custom_loop.py").read_text())
    assert done.returncode == 0
    assert "nothing found; examined only the model and the first step" in " ".join(done.stdout.split())


@pytest.mark.slow
def test_check_does_not_change_subsequent_training(tmp_path):
    """One process trains on each kind of data, with or without a preceding check."""
    seeded = GOOD.replace('"relu"), ', '"relu"), keras.layers.Dropout(0.2), ')
    body = "import keras, oomph, sys, tensorflow as tf\n"
    for data in DATA.values():
        body += f"""keras.utils.clear_session()
keras.utils.set_random_seed(3)
{seeded}
{data}
if "check" in sys.argv:
    assert not oomph.check(model, *data, epochs=3).has_errors
h = model.fit(*data, epochs=3, verbose=0)
print(h.history['loss'], [w.sum() for w in model.get_weights()])
"""
    (tmp_path / "train.py").write_text(body)
    outputs = []
    for words in ((), ("check",)):
        done = subprocess.run(
            [sys.executable, "train.py", *words], cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS,
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-2000:]
        outputs.append(done.stdout.splitlines())
    assert len(outputs[0]) == len(DATA)
    assert outputs[0] == outputs[1]


@pytest.mark.slow
@pytest.mark.parametrize("file", THROUGH_THE_COMMAND, ids=lambda path: path.stem)
def test_command_reports_the_mistake_but_not_its_corrected_twin(tmp_path, file):
    text = file.read_text()
    wanted = {name.strip() for name in re.findall(r"^# finds: (.+)$", text, re.MULTILINE)[0].split(",")}
    found = {}
    for which, mark in MARKS.items():
        lines = [line for line in text.splitlines() if not line.rstrip().endswith(mark)]
        done = check(tmp_path, "\n".join(lines) + "\n", "--json")
        found[which] = (
            done.returncode,
            {each["name"]: each["severity"] for each in json.loads(done.stdout)["findings"]},
        )
    assert wanted & {*found["wrong"][1]}
    assert found["wrong"][0] == int("error" in found["wrong"][1].values())
    assert found["right"][0] == 0
    assert not wanted & {*found["right"][1]}
