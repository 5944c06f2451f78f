"""A step that keeps failing on its data: oomph stops, or skips the batch if allowed."""

from __future__ import annotations

import pytest

from oomph.journal.journal import read_journal
from oomph.run.policy.decisions import replay

SCRIPT = """
import os
import keras
import numpy as np

class Poison(keras.callbacks.Callback):
    def on_train_batch_begin(self, batch, logs=None):
        if batch == 6 and not os.environ.get("CURED"):
            open("tries", "a").write("x")
            if handover.changed("skip-batch") == []:
                os.abort()

from oomph.protocol.handover import Handover
handover = Handover.read()
x = np.zeros((160, 4), "float32")
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile("sgd", "mse", jit_compile=True)
model.fit(x, x[:, :1], batch_size=16, epochs=1, verbose=0, callbacks=[Poison()])
print("end", int(model.optimizer.iterations), model.jit_compile)
"""


@pytest.mark.slow
def test_poison_step_stops_the_run_by_default(work):
    work.write(SCRIPT)
    ours = work.oomph("--checkpoint-every=2", "train.py")
    assert ours.returncode == 93
    assert (work.folder / "tries").read_text() == "xxxx"  # the same, without XLA, an older checkpoint, and that again
    assert "poison step: fit 1, epoch 1, step 7 failed with abort twice" in ours.summary["gave_up"]
    assert list(ours.summary["changes"]) == ["without XLA", ours.summary["changes"][1]]
    assert all(decision.reproduced for decision in replay(read_journal(ours.folder)))


@pytest.mark.slow
def test_skip_poison_skips_the_batch_and_trains_on_the_rest(work):
    work.write(SCRIPT)
    ours = work.oomph("--checkpoint-every=2", "--skip-poison", "train.py")
    assert ours.returncode == 0, ours.stderr[-3000:]
    assert ours.stdout.endswith("False\n")  # XLA stays off
    assert ours.summary["steps"] == 9  # of ten batches
    assert len(ours.events("batch-skipped")) == 1
    assert "leaving out the batch at fit 1, epoch 1, step 7" in ours.summary["changes"]
    assert ours.summary["exactness"] == "not-equal"
    assert "leaving out the batch at fit 1, epoch 1, step 7" in ours.summary["exactness_reasons"]
