"""Labels where nothing was restored: a script without any fit, and a fit killed before its first checkpoint."""

from __future__ import annotations

NO_FIT = """
import os, signal
if not os.path.exists("killed"):
    open("killed", "w").close()
    os.kill(os.getpid(), signal.SIGKILL)
print("done")
"""
EARLY = """
import os, signal, keras, numpy as np
keras.utils.set_random_seed(1)
class Kill(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 3 and not os.path.exists("killed"):
            open("killed", "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
x = np.zeros((96, 4), "float32")
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile("sgd", "mse", jit_compile=False)
model.fit(x, x[:, :1], batch_size=16, verbose=0, callbacks=[Kill()])
"""


def test_a_script_without_any_fit_is_unguarded(work):
    work.write(NO_FIT)
    ours = work.oomph("train.py")
    assert (ours.returncode, ours.stdout) == (0, "done\n"), ours.stderr[-3000:]
    assert (ours.summary["exactness"], ours.summary["restarts"]) == ("unguarded", 1)


def test_a_fit_without_a_checkpoint_is_started_over(work):
    work.write(EARLY)
    ours = work.oomph("--checkpoint-every=1000", "train.py")
    assert ours.returncode == 0, ours.stderr[-3000:]
    assert (ours.summary["exactness"], ours.summary["restarts"]) == ("started-over", 1)
