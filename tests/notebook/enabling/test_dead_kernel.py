"""A fit cut short by its kernel's death or an interrupt resumes when the next kernel runs the same cells."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from pathlib import Path

import pytest

from oomph.journal.events import AttemptEnded, Resumed
from oomph.journal.journal import facts, read_journal
from oomph.protocol.progress import read_progress

pytestmark = pytest.mark.alone  # kernels are killed and signalled within seconds

MODEL = """
import time, keras, numpy as np
class Slow(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.05)  # long enough for a checkpoint
keras.utils.set_random_seed(7)
x = np.random.rand(256, 6).astype("float32")
y = x.sum(1, keepdims=True)
layers = [keras.layers.Dense(16, "relu"), keras.layers.Dropout(0.2), keras.layers.Dense(1)]
model = keras.Sequential([keras.Input((6,)), *layers])
model.compile("adam", "mse")
"""
FIRST = "model.fit(x, y, batch_size=16, epochs=12, callbacks=[Slow()], verbose=0)"
SECOND = "history = model.fit(x, y, batch_size=32, epochs=6, callbacks=[Slow()], verbose=0)"
BITS = "import hashlib; print(hashlib.md5(b''.join(w.tobytes() for w in model.get_weights())).hexdigest())"


def wait_for(run_dir: Path, steps: int) -> None:
    """Wait until a run has trained this many steps and has a checkpoint, for at most 100 s."""
    until = time.monotonic() + 100
    while time.monotonic() < until:
        progress = read_progress(run_dir) if run_dir.exists() else None
        if progress is not None and progress.saved and progress.steps >= steps:
            return
        time.sleep(0.01)
    raise TimeoutError(f"no checkpoint after {steps} steps")


def kill_at(kernel, run_dir: Path, steps: int) -> None:
    """Kill the kernel once its run has trained this many steps and has a checkpoint."""

    def watch() -> None:
        wait_for(run_dir, steps)
        os.kill(kernel.pid, signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


def test_fits_killed_twice_end_bit_identical_to_plain_keras(start, tmp_path):
    run_dir = tmp_path / ".oomph/notebooks/lesson"
    draw = random.Random(tmp_path.name)

    dying = start(JPY_SESSION_NAME=str(tmp_path / "lesson.ipynb"))
    dying.good("%load_ext oomph")
    dying.good(MODEL)
    kill_at(dying, run_dir, draw.randint(20, 50))
    assert dying.run(FIRST).died

    second = start(JPY_SESSION_NAME=str(tmp_path / "lesson.ipynb"))
    second.good("%load_ext oomph")
    second.good(MODEL.replace("Dense(16", "Dense(12"))
    refused = second.run(FIRST)
    assert refused.error == "TrainingStoppedError", refused
    assert "Undo the change to resume from the checkpoint, which is kept" in refused.value
    assert "src/oomph" not in refused.traceback
    second.good(MODEL)
    resumed = second.good(FIRST)
    assert "; resumed at epoch " in resumed.told.splitlines()[-1], resumed.told
    kill_at(second, run_dir, 192 + draw.randint(10, 30))
    assert second.run(SECOND).died

    third = start(JPY_SESSION_NAME=str(tmp_path / "lesson.ipynb"))
    third.good("%load_ext oomph")
    third.good(MODEL)
    returned = third.good(FIRST).told
    assert "was finished by an earlier attempt: result restored" in returned, returned
    line = third.good(SECOND).told.splitlines()[-1]
    assert line.startswith("oomph: fit 2 ("), line
    assert line.endswith("compared equal; verified: the repeated steps match the original ones"), line
    ours = third.good(BITS).out
    events = read_journal(run_dir)
    for attempt in (2, 3):
        [dead] = facts([event for event in events if event.attempt == attempt - 1], AttemptEnded)
        resumed = facts([event for event in events if event.attempt == attempt], Resumed)[-1]
        assert resumed.steps == dead.saved, "no step before the checkpoint is repeated"

    third.good("%unload_ext oomph\ntime.sleep = lambda seconds: None")
    for cell in (MODEL, FIRST, SECOND):
        third.good(cell)
    assert third.good(BITS).out == ours


@pytest.mark.slow
def test_interrupted_fit_resumes_in_the_next_kernel_as_its_line_says(start, tmp_path):
    run_dir = tmp_path / ".oomph/notebooks/lesson"
    first = start(JPY_SESSION_NAME=str(tmp_path / "lesson.ipynb"))
    first.good("%load_ext oomph")
    first.good(MODEL)
    request = first.send(FIRST)
    wait_for(run_dir, 20)
    first.manager.interrupt_kernel()
    stopped = first.wait(request)
    assert stopped.error == "KeyboardInterrupt"
    assert "steps are saved; to resume, restart the kernel: " in stopped.told, stopped.told
    first.shut_down()

    second = start(JPY_SESSION_NAME=str(tmp_path / "lesson.ipynb"))
    second.good("%load_ext oomph")
    second.good(MODEL)
    resumed = second.good(FIRST)
    assert "; resumed at epoch " in resumed.told.splitlines()[-1], resumed.told
