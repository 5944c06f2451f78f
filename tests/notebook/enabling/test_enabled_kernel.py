"""One kernel in which oomph is enabled late and twice, interrupted, disabled, and enabled again."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from oomph.protocol.progress import read_progress

pytestmark = pytest.mark.alone  # kernels are killed and signalled within seconds

MODEL = """
import gc, hashlib, os, signal, sys, time, keras, numpy as np, tensorflow as tf
def new():
    keras.utils.set_random_seed(5)
    layers = [keras.layers.Dense(8), keras.layers.Dropout(0.3), keras.layers.Dense(1)]
    model = keras.Sequential([keras.Input((4,)), *layers])
    model.compile("adam", "mse")
    return model
def bits(model):
    return hashlib.md5(b"".join(w.tobytes() for w in model.get_weights())).hexdigest()
x = np.random.default_rng(0).random((64, 4)); y = x.sum(1)
def kinds(model):
    return [type(getattr(model, f"{kind}_function")).__name__ for kind in ("train", "test", "predict")]
"""
SNAPSHOT = """
import contextlib
from keras.src.backend.tensorflow import trainer
from keras.src.utils import traceback_utils
from tensorflow.python.data.ops import iterator_ops
from tensorflow.python.data.util import random_seed
from tensorflow.python.eager import core, polymorphic_function
from tensorflow.python.eager.polymorphic_function import polymorphic_function, tracing_compilation
from tensorflow.python.lib.io import file_io
from tensorflow.python.ops import gen_random_ops
def opened():
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # a thread closed it meanwhile
            yield os.readlink(f"/proc/self/fd/{fd}")
def snapshot():
    owners = [keras.Model, trainer.TensorFlowTrainer, trainer.TFEpochIterator, keras.optimizers.Optimizer,
        keras.src.optimizers.base_optimizer.BaseOptimizer, keras.src.trainers.epoch_iterator.EpochIterator,
        iterator_ops.OwnedIterator, polymorphic_function.Function, tracing_compilation, core, random_seed,
        gen_random_ops, file_io.FileIO, tf.config.experimental, np.random.bit_generator, traceback_utils, trainer]
    seen = {(str(owner), name): id(value) for owner in owners for name, value in list(vars(owner).items())}
    kept = {at: value for at, value in seen.items() if not at[1].startswith("_abc")}
    return {**kept, "environment": dict(os.environ), "finders": list(map(id, sys.meta_path)), "exit": id(sys.exit),
        "encode": os.environ.encodekey, **{f"signal {n}": signal.getsignal(n) for n in (2, 10, 15)},
        "files": sorted(opened())}
"""
DIFFERENCE = """
after = snapshot()
theirs = ("history.sqlite", "history.sqlite-journal", "profile_default")  # IPython's own, and the folder it syncs
files = [path for path in after.pop("files") if path not in before["files"] and not path.endswith(theirs)]
print([k for k in {**before, **after} if k != "files" and before.get(k) != after.get(k)] + files)
"""
FIT = """
model = new()
model.fit(x, y, epochs=2, batch_size=16, verbose=0)
model.evaluate(x, y, verbose=0)
print(bits(model))
"""
LONG = """
class Slow(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.05)
model.fit(x, y, epochs=400, batch_size=16, callbacks=[Slow()], verbose=0)
"""

LOST = """
class Losing(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        raise tf.errors.InternalError(None, None, "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access")
model.fit(x, y, epochs=2, callbacks=[Losing()], verbose=0)
"""


def signal_in_fit(kernel, run_dir, signum: int, after: int = 20) -> None:
    """Send a signal to the kernel's process alone once it has trained some more steps."""
    found = read_progress(run_dir)
    begun = 0 if found is None else found.steps

    def send() -> None:
        until = time.monotonic() + 60
        while time.monotonic() < until:
            now = read_progress(run_dir)
            if now is not None and now.steps >= begun + after:
                break
            time.sleep(0.02)
        os.kill(kernel.pid, signum)

    threading.Thread(target=send, daemon=True).start()


def test_enabling_late_guards_the_kernel_and_unloading_restores_it(start, tmp_path):
    run_dir = tmp_path / ".oomph/notebooks/notebook"
    kernel = start()
    kernel.good(MODEL)
    plain = kernel.good(FIT).out
    kernel.good("old = model; old.predict(x, verbose=0)")
    kernel.good(SNAPSHOT)
    kernel.good("before = snapshot()")

    enabled = kernel.good("%load_ext oomph\nimport oomph; oomph.enable()")
    assert enabled.err.count("oomph:") == 1, enabled
    assert str(run_dir) in enabled.err, enabled
    guarded = kernel.good(FIT)
    assert guarded.out == plain
    assert "'fit')" in kernel.good(DIFFERENCE).out, "the snapshot sees what oomph changes"
    assert guarded.told.splitlines()[-1].startswith("oomph: fit 1 ("), guarded.told
    assert guarded.told.splitlines()[-1].endswith(" s; exact"), guarded.told
    assert kernel.good("print(kinds(old))").out == "['function', 'function', 'Function']\n", "as Keras made them"
    kernel.good("old.fit(x, y, epochs=1, verbose=0); old.evaluate(x, y, verbose=0); old.predict(x, verbose=0)")
    assert kernel.good("print(kinds(old))").out == "['GuardedStep', 'GuardedStep', 'GuardedPredict']\n"
    again = kernel.good(FIT)
    assert again.out == plain
    assert "fit 3 (" in again.told, "a cell that runs again trains anew"

    children = kernel.good(
        "import subprocess\n"
        "!{sys.executable} -c \"import os, sys; print('OOMPH_HANDOVER' in os.environ, 'oomph' in sys.modules)\"\n"
        "sleeping = subprocess.Popen(['sleep', '60'])"
    )
    assert children.out.split() == ["False", "False"]
    signal_in_fit(kernel, run_dir, signal.SIGINT)
    interrupted = kernel.run(LONG)
    assert interrupted.error == "KeyboardInterrupt", interrupted
    assert "src/oomph" not in interrupted.traceback
    assert kernel.good("print(sleeping.poll()); sleeping.kill(); sleeping.wait()").out == "None\n", (
        "no other process is hit"
    )
    assert kernel.good(FIT).out == plain
    lost = kernel.run(LOST)
    assert lost.error == "TrainingStoppedError", lost
    assert "Restart the kernel and run the cells again: training " in lost.value, lost
    assert lost.traceback == f"TrainingStoppedError: {lost.value}", "no frame of ours"

    kernel.good("%unload_ext oomph")
    assert kernel.good(DIFFERENCE).out == "[]\n"
    assert kernel.good("print(kinds(old))").out == "['NoneType', 'NoneType', 'NoneType']\n"
    assert kernel.good(FIT).out == plain
    assert kernel.good("print(kinds(model)[:2])").out == "['function', 'function']\n"

    kernel.good("%reload_ext oomph")
    signal_in_fit(kernel, run_dir, signal.SIGTERM)
    assert kernel.run(LONG).died, "SIGTERM ends a kernel, with oomph as without"
    stopped = read_progress(run_dir)
    assert stopped is not None
    assert stopped.saved == stopped.steps > 0
