"""The last words of a process that really trained, after `%oomph check` and `%oomph plan` of its model."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import oomph
from oomph.notebook.evidence.last_words import told

PACKAGE = Path(oomph.__file__).parent
TRAINS = """
import os, signal, sys
from oomph.inject import hook
from oomph.notebook.evidence.last_words import record
from oomph.protocol.handover import Guarding, Handover
from oomph.script.session import join

handover = Handover(package={package!r}, run_dir={run!r}, guarding=Guarding(checkpoint_steps=3))
session = join(handover)
record(session)
hook.after_import(hook.guarding(lambda: session))

import keras
import numpy as np

model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
x = np.ones((40, 8), "float32")
y = x[:, :1]

class Dies(keras.callbacks.Callback):
    steps = 0
    def on_train_batch_end(self, batch, logs=None):
        Dies.steps += 1
        if Dies.steps == 7:
            os.kill(os.getpid(), signal.SIGKILL)
"""
ASKS = """
from IPython.core.interactiveshell import InteractiveShell
from oomph.notebook.magics import words as magics
shell = InteractiveShell.instance()
magics.register(shell)
shell.push({"model": model, "x": x, "y": y, "bare": keras.Sequential([keras.layers.Dense(1)])})
shell.run_cell("found = %oomph check model, x, y, epochs=5")
shell.run_cell("print(found.looked_at)")
shell.run_cell("planned = %oomph plan model x y batch_size=8 gpu='24GiB'")
shell.run_cell("print(planned.batch)")
shell.run_cell("%oomph check model, x, y, epoch=5")
shell.run_cell("%oomph plan bare, x, y")
"""


def test_check_and_plan_answer_and_the_killed_training_is_reported_with_its_position(tmp_path):
    environ = {name: value for name, value in os.environ.items() if not name.startswith("OOMPH_")}
    environ |= {"PYTHONPATH": str(PACKAGE.parent), "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    code = TRAINS.format(package=str(PACKAGE), run=str(tmp_path / "run")) + ASKS
    (tmp_path / "run").mkdir()
    (tmp_path / "script.py").write_text(
        code + "model.fit(x, y, batch_size=8, epochs=3, verbose=0, callbacks=[Dies()])\n"
    )
    done = subprocess.run(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        env=environ | {"IPYTHONDIR": str(tmp_path / "ipython")},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert "40 samples" in done.stdout
    assert "\n8\n" in done.stdout
    assert "oomph: %oomph check: TypeError: " in done.stderr
    assert "'epoch'" in done.stderr
    assert "oomph: the model is not compiled" in done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    cause, position, advice = told(tmp_path / "run")
    assert cause.startswith("nothing shows what killed the program (process ")
    assert re.fullmatch(r"its training was at fit 1, epoch 2, step [23] \([67] steps done, [36] saved\)", position)
    assert advice.startswith("start the program again: the training resumes from its last checkpoint")
