"""A run that makes no progress is stopped, the line that blocks it is reported, and training continues."""

from __future__ import annotations

import pytest

from oomph.run.hang.limits import FLOOR_VARIABLE

FLOOR = {FLOOR_VARIABLE: "3"}


@pytest.fixture(scope="module")
def plain(shared):
    return shared.undisturbed("hangs.py", "never")


def run(work, how, **options):
    work.script("hangs.py")
    return work.oomph("--checkpoint-every=4", "hangs.py", "ours.npz", how, env=FLOOR, **options)


def assert_overcome(ours, how, line, phase="step"):
    assert ours.returncode == 0, ours.stderr[-3000:]
    (hang,) = ours.events("hang")
    assert hang.data["phase"] == phase
    assert line in hang.data["line"], hang.data["line"]
    assert "most recent call first" in hang.data["stacks"]
    assert hang.data["seconds"] <= 3.5 or how in ("spin", "gil")
    assert ours.summary["faults"] == {"hang": 1}
    # libc's sleep ends when the signal arrives, and the script saves: then no step is repeated that could be compared
    is_compared = how != "gil" or ours.summary["steps_repeated"]
    assert ours.summary["exactness"] in (("verified", "replayed") if is_compared else ("unverified",))


def test_run_recovers_from_a_hang_on_an_unreleased_lock(work, plain, same_bits):
    ours = run(work, "lock")
    assert_overcome(ours, "lock", "in wait_for_a_lock")
    same_bits(work.folder / "ours.npz", plain)
    assert any("no progress for 3 s in a step (limit 3 s), at hangs.py:" in line for line in ours.said)


@pytest.mark.slow
def test_run_recovers_from_a_hang_in_a_stalled_generator(work, same_bits):
    ours = run(work, "generator")
    assert_overcome(ours, "generator", "in wait_for_a_lock")
    assert ", while hangs.py:" in ours.events("hang")[0].data["line"]
    assert work.plain("hangs.py", "plain.npz", "generator").returncode == 0  # it has hung once, and does nothing more
    same_bits(work.folder / "ours.npz", work.folder / "plain.npz")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "line", "phase"),
    [
        ("sleep", "in <lambda>", "step"),
        ("cpp", "in wait_in_cpp", "step"),
        ("gil", "in hold_the_gil", "step"),
        ("spin", "in spin", "step"),
        ("validation", "in on_test_batch_end", "validation"),
    ],
)
def test_run_recovers_from_every_other_kind_of_hang(work, plain, same_bits, how, line, phase):
    assert_overcome(run(work, how), how, line, phase)
    same_bits(work.folder / "ours.npz", plain)


@pytest.mark.slow
def test_custom_loop_hang_is_detected_at_optimizer_apply(work):
    ours = run(work, "loop")
    assert ours.returncode == 0, ours.stderr[-3000:]
    (hang,) = ours.events("hang")
    assert (hang.data["phase"], "hangs.py" in hang.data["line"]) == ("loop", True)


@pytest.mark.slow
def test_work_after_a_custom_loop_is_not_reported_as_a_hang(work):
    ours = run(work, "loop-over")
    assert ours.returncode == 0, ours.stderr[-3000:]
    assert ours.events("hang") == []
    assert ours.summary["attempts"] == 1


def undisturbed(work, pause, rest, more=""):
    """Train with a shuffle buffer of 40 samples and a pause before each, which must not be mistaken for a hang.

    Without autotuning: when an iterator over a generator is deleted, TensorFlow 2.21 may idle for one period of its
    autotuner: as long as the iterator has existed, but at most 60 s. The real floor allows that, and this one does not.
    """
    work.write(
        f"import time, keras, numpy as np, tensorflow as tf\n{more}"
        f"def samples():\n    for n in range(40):\n        {pause}\n"
        "        yield np.ones(4, 'float32'), np.ones(1, 'float32')\n"
        "spec = (tf.TensorSpec((4,)), tf.TensorSpec((1,)))\n"
        "data = tf.data.Dataset.from_generator(samples, output_signature=spec).shuffle(40).batch(4)\n"
        "options = tf.data.Options()\noptions.autotune.enabled = False\ndata = data.with_options(options)\n"
        "model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])\n"
        f"model.compile('sgd', 'mse', jit_compile=False)\n{rest}"
    )
    ours = work.oomph("train.py", env=FLOOR)
    assert ours.returncode == 0, ours.stderr[-3000:]
    assert ours.events("hang") == []
    assert ours.summary["attempts"] == 1


@pytest.mark.slow
def test_slowly_filling_shuffle_buffer_is_not_reported_as_a_hang(work):
    """Filling the buffer causes hardly any activity, as when reading from a slow disk."""
    pause = "for _ in range(10): sum(range(9000)); time.sleep(0.012)"
    undisturbed(work, pause, "model.fit(data, epochs=3, verbose=0)\n")


@pytest.mark.slow
def test_slow_first_steps_and_validations_are_not_reported_as_hangs(work):
    """A first step, an epoch that fills its shuffle buffer, and a validation: each exceeds the floor, but is busy."""
    busy = "def busy(seconds):\n    until = time.time() + seconds\n    while time.time() < until: pass\n"
    slow = (
        "class Slow(keras.callbacks.Callback):\n"
        "    def on_test_begin(self, logs=None): busy(5)\n"
        "    def on_epoch_end(self, epoch, logs=None): busy(5)\n"
        "x = np.ones((8, 4), 'float32')\n"
        "model.fit(data, epochs=3, verbose=0, validation_data=(x, x[:, :1]), callbacks=[Slow()])\n"
    )
    undisturbed(work, "busy(0.15)", slow, more=busy)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["train_function", "test_function"])
def test_slow_custom_keras_steps_are_not_reported_as_a_hang(work, name):
    """Forty one-second steps, which is ten times the floor of a phase in which steps are not visible."""
    work.write(
        "import time, keras, numpy as np\n"
        "class Own(keras.Model):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n        self.dense = keras.layers.Dense(1)\n"
        "    def call(self, x):\n        return self.dense(x)\n"
        f"    def make_{name}(self, force=False):\n"
        f"        super().make_{name}(force=True)\n"
        f"        plain = getattr(self.{name}, '_plain', self.{name})\n"
        "        def slowly(iterator):\n            time.sleep(1)\n            return plain(iterator)\n"
        f"        self.{name} = slowly\n"
        "x = np.zeros((40, 4), 'float32')\nmodel = Own()\nmodel.compile('sgd', 'mse', jit_compile=False)\n"
        "model.fit(x, x[:, :1], batch_size=1, validation_data=(x, x[:, :1]), validation_batch_size=1, verbose=0)\n"
        "print('fitted')\n"
    )
    ours = work.oomph("train.py", env=FLOOR)
    assert (ours.returncode, ours.stdout) == (0, "fitted\n"), ours.stderr[-3000:]
    assert ours.events("hang") == []
    assert ours.summary["attempts"] == 1


_LITTLE_MEMORY = """
import keras, numpy as np
keras.utils.set_random_seed(1)
x = np.random.default_rng(0).normal(size=(16384, 64)).astype("float32")
layers = [keras.layers.Dense(512, "tanh") for _ in range(6)]
model = keras.Sequential([keras.Input((64,)), *layers, keras.layers.Dense(1)])
model.compile("sgd", "mse", jit_compile=False)
model.fit(x, x[:, :1], batch_size=8192, verbose=0)
"""


@pytest.mark.slow
def test_waiting_for_memory_is_not_reported_as_a_hang(work, memory):
    """TensorFlow waits ten seconds before each error, far longer than the three-second floor."""
    work.write(_LITTLE_MEMORY)
    ours = work.oomph("train.py", env=memory(60) | FLOOR)
    assert ours.returncode == 0, ours.stderr[-3000:]
    assert ours.events("oom")
    assert ours.events("hang") == []
    assert ours.summary["restarts"] == 0
    assert any("waiting for memory: TensorFlow retries an allocation for 10 s" in line for line in ours.said)
