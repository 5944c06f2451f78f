"""A restart under `oomph run` is marked in the event files of `oomph.Monitor`, at the step where training went on."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from oomph.run.directory.pruning import Removal, remove

TRAINS = """
import glob
import os
import signal
import time

import keras
import numpy as np

import oomph


class KilledOnce(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        time.sleep(0.2)
        written = glob.glob("logs/oomph/*")
        self.model.stop_training = len(written) > 1
        if written and not os.path.exists("killed"):
            open("killed", "w").close()
            os.kill(os.getpid(), signal.SIGKILL)


keras.utils.set_random_seed(1)
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(
    np.ones((64, 8), "float32"), np.ones((64, 1), "float32"), epochs=300, verbose=0,
    callbacks=[oomph.Monitor(tensorboard="logs"), KilledOnce()],
)
"""
READS = """
import glob
import json
import tensorflow as tf

for path in sorted(glob.glob("logs/oomph/*")):
    for event in tf.compat.v1.train.summary_iterator(path):
        for value in event.summary.value:
            content = tf.make_ndarray(value.tensor).item()
            print(json.dumps([event.step, value.tag, content.decode() if isinstance(content, bytes) else content]))
"""


@pytest.mark.slow
def test_restart_and_host_memory_are_in_the_event_files(work):
    ended = work.oomph("--checkpoint-every=4", work.write(TRAINS))
    assert ended.returncode == 0, ended.stderr[-3000:]
    read = subprocess.run(
        [sys.executable, "-c", READS], cwd=work.folder, capture_output=True, text=True, check=True, timeout=60
    )
    written = [json.loads(line) for line in read.stdout.splitlines()]
    attempts = [value for _, tag, value in written if tag == "run/attempt"]
    assert sorted(set(attempts)) == [1, 2]
    ((step, text),) = [(step, value) for step, tag, value in written if tag == "run/restart"]
    assert text == "attempt 2; the one before it: killed"
    assert step > 0
    memory = [value for _, tag, value in written if tag == "host/script_bytes"]
    assert min(memory) > 50e6
    assert remove(ended.folder)._replace(freed_bytes=0) == Removal(), "every file of a run is known to be oomph's"
    assert not ended.folder.exists()
