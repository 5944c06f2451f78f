"""Training loops over `oomph.steps`: killed, preempted, out of memory, and resumed bit-identically."""

from __future__ import annotations

import os
import signal

import pytest

from oomph.protocol.reasons import reason_from

STEPS = 72  # of steps.py: 6 epochs of 12
DONE_AGAIN = ("verified", "replayed", "unverified")


@pytest.fixture(scope="module")
def plain(shared):
    """Return the weights from an undisturbed run without oomph, for a set of options."""
    return lambda *options: shared.undisturbed("steps.py", *options)


def killed(work, options, step, every=7):
    work.script("steps.py")
    running = work.start(f"--checkpoint-every={every}", "steps.py", "ours.npz", *options)
    running.kill_at_step(step)
    ended = running.finish()
    assert ended.returncode == 0, ended.stderr[-3000:]
    return ended


def behind_last_checkpoint(ended, every=7):
    """Return how many steps the killed attempt was past its last checkpoint.

    A slow checkpoint is followed by one written in the background. The next one waits for it, so at most one is
    unfinished. The kill may come when that one is complete but its event is not in the journal yet.
    """
    saved = [event.data["steps"] for event in ended.events("checkpoint") if event.attempt == 1]
    reached = ended.events("attempt-ended")[0].data["steps"]
    assert saved == [*range(every, saved[-1] + 1, every)]
    assert reached - saved[-1] <= 2 * every
    last = ended.events("resumed")[0].data["steps"]
    assert last in (saved[-1], saved[-1] + every)
    return reached - last


@pytest.mark.parametrize(
    ("options", "step"),
    [
        ((), 31),
        pytest.param(("break", "two"), 55, marks=pytest.mark.slow),
        pytest.param(("filter",), 31, marks=pytest.mark.slow),
        pytest.param(("generator",), 31, marks=pytest.mark.slow),
        pytest.param(("list",), 45, marks=pytest.mark.slow),
        pytest.param(("numbered",), 45, marks=pytest.mark.slow),
    ],
    ids=["tf.data", "break", "length not known", "generator", "list", "PyDataset"],
)
def test_killed_loop_resumes_bit_identically(work, plain, same_bits, options, step):
    ended = killed(work, options, step)
    same_bits(work.folder / "ours.npz", plain(*options))
    told = ended.summary
    assert told["exactness"] in DONE_AGAIN, told["exactness_reasons"]
    assert (told["restarts"], told["steps_repeated"]) == (1, behind_last_checkpoint(ended))
    assert any(
        "guarding loop at steps.py:" in line and "state=[Net, Adam, Mean, dict, Generator]" in line
        for line in ended.said
    )
    assert any("resumed loop at steps.py:" in line for line in ended.said)
    assert not any("a custom loop, which a restart starts over" in line for line in ended.said)
    assert not ended.events("loop-seen")


@pytest.mark.slow
def test_loop_without_a_fault_matches_a_plain_loop_bit_for_bit(work, plain, same_bits):
    work.script("steps.py")
    ended = work.oomph("steps.py", "ours.npz")
    same_bits(work.folder / "ours.npz", plain())
    assert (ended.summary["exactness"], ended.summary["steps"]) == ("exact", STEPS)
    (started,) = ended.events("fit-started")
    assert started.data["loops"], "a hang is looked for in these lines"


@pytest.mark.slow
def test_loop_state_omitted_by_the_script_is_detected(work):
    ended = killed(work, ("forgets",), 31)
    assert ended.summary["exactness"] == "not-equal"
    assert "the same batch gives a different result" in ended.summary["exactness_reasons"][0]


@pytest.mark.slow
def test_finished_loop_repeats_its_last_step_on_resume(work, plain, same_bits):
    ended = killed(work, ("two",), 80)
    same_bits(work.folder / "ours.npz", plain("two"))
    first, second = ended.events("resumed")
    assert (first.data["steps"], second.data["steps"] > STEPS) == (STEPS - 1, True)
    compared = [event.data["equal"] for event in ended.events("compared")]
    assert compared
    assert all(compared)


@pytest.mark.slow
@pytest.mark.parametrize("signum", [signal.SIGTERM, pytest.param(signal.SIGUSR1, marks=pytest.mark.slow)])
def test_preempted_loop_exits_with_75_without_repeating_a_step(work, plain, same_bits, signum):
    work.script("steps.py")
    running = work.start("--checkpoint-every=1000", "steps.py", "ours.npz")
    running.wait_for_step(20)
    os.kill(running.script_pid(1), signum)
    first = running.finish(seconds=60)
    assert first.returncode == 75, first.stderr[-3000:]
    assert any("steps are saved; exiting" in line for line in first.said)
    last = work.oomph("--resume=run", "steps.py", "ours.npz")
    assert last.returncode == 0, last.stderr[-3000:]
    same_bits(work.folder / "ours.npz", plain())
    assert (last.summary["steps"], last.summary["steps_repeated"]) == (STEPS, 0)
    assert last.summary["exactness"] in DONE_AGAIN


@pytest.mark.slow
def test_guarded_loop_step_survives_out_of_memory_and_a_kill(work, memory, load):
    """Every attempt runs out of memory, with a kill in between: the step is divided and nothing is lost."""
    import numpy as np

    work.write(GUARDED)
    assert work.plain("train.py", "plain.npz").returncode == 0
    running = work.start("--checkpoint-every=3", "train.py", "ours.npz", env=memory(22))
    running.kill_at_step(8)
    ended = running.finish()
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert ended.events("oom")
    ours, theirs = load(work.folder / "ours.npz"), load(work.folder / "plain.npz")
    assert all(np.allclose(ours[name], theirs[name], rtol=1e-10, atol=1e-12) for name in theirs)
    assert ended.summary["exactness"] in DONE_AGAIN
    assert ended.summary["steps"] == 15


GUARDED = """
import sys, time, keras, numpy as np, tensorflow as tf, oomph
keras.config.set_floatx("float64")
keras.utils.set_random_seed(1)
rng = np.random.default_rng(0)
x, y = rng.normal(size=(6000, 16)), rng.normal(size=(6000, 4))
layers = [keras.layers.Dense(256, "tanh") for _ in range(4)]
model = keras.Sequential([keras.Input((16,)), *layers, keras.layers.Dense(4)])
optimizer = keras.optimizers.Adam(0.001)

@oomph.guard(batched=("x", "y"))
@tf.function
def step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((y - model(x, training=True)) ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss

for x, y in oomph.steps(tf.data.Dataset.from_tensor_slices((x, y)).batch(2000), 5, state=[model, optimizer]):
    loss = step(x, y)
    time.sleep(0.05)
np.savez(sys.argv[1], loss=float(loss), **{f"v{i}": np.array(v) for i, v in enumerate(model.variables)})
"""


OTHERS = """
import sys, keras, numpy as np, tensorflow as tf, oomph
keras.utils.set_random_seed(1)
x = np.random.default_rng(0).normal(size=(64, 3)).astype("float32")
model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
model.compile("adam", "mse", jit_compile=False)
other = keras.models.clone_model(model)
other.compile("sgd", "mse", jit_compile=False)
seen = []

# A fit and evaluate within the body; the loop is left by an exception that the script catches.
try:
    for batch in oomph.steps([x[:32], x[32:]], 3, state=[other, other.optimizer, seen]):
        other.fit(batch, batch[:, :1], verbose=0)
        seen.append(float(other.evaluate(batch, batch[:, :1], verbose=0)))
        if len(seen) == 5:
            raise KeyError("enough")
except KeyError:
    pass

# A loop in a callback of a fit: a plain one.
class Inner(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        for number in oomph.steps(range(3), state=[seen]):
            seen.append(number)

# A fit after a loop, and one more loop after that.
model.fit(x, x[:, :1], epochs=3, verbose=0, callbacks=[Inner()])
for batch in oomph.steps(tf.data.Dataset.from_tensor_slices(x).batch(16), 2, state={"model": model, "seen": seen}):
    seen.append(float(model.train_on_batch(batch, batch[:, :1])))
np.savez(sys.argv[1], seen=seen, w=np.array(model.weights[0]), o=np.array(other.weights[0]))
"""


@pytest.mark.slow
def test_nested_and_successive_fits_and_loops_are_bit_identical(work, same_bits):
    work.write(OTHERS)
    assert work.plain("train.py", "plain.npz").returncode == 0
    ours = work.oomph("train.py", "ours.npz")
    assert ours.returncode == 0, ours.stderr[-3000:]
    same_bits(work.folder / "ours.npz", work.folder / "plain.npz")
    assert [event.data["guard"] for event in ours.events("fit-started")] == ["loop", "exact", "loop"]
    assert [event.data["fit"] for event in ours.events("fit-finished")] == [1, 2]
    assert not ours.events("guard-failed")
    assert ours.summary["exactness"] == "exact"


@pytest.mark.slow
def test_disabled_or_failing_guard_leaves_loop_results_unchanged(work, plain, same_bits):
    work.script("steps.py")
    assert work.oomph("--no-guard", "steps.py", "ours.npz").returncode == 0
    same_bits(work.folder / "ours.npz", plain())
    work.write(
        "import keras, oomph.resume.loop.resumable as broken, runpy\n"
        "broken.LoopCheckpoints.at_border = lambda self: 1 / 0\n"
        "import sys; sys.argv[0] = 'steps.py'; runpy.run_path('steps.py', run_name='__main__')\n"
    )
    ended = work.oomph("train.py", "broken.npz", run="broken")
    assert ended.returncode == 0, ended.stderr[-3000:]
    same_bits(work.folder / "broken.npz", plain())
    assert any("ZeroDivisionError: division by zero; the loop continues" in line for line in ended.said)


FORGETFUL = """
import sys, time, tensorflow as tf, oomph
tf.random.set_seed(3)
w, done = tf.Variable([1.0, 2.0]), tf.Variable(0)

@tf.function
def noisy():
    w.assign_add(tf.random.normal([2]))

def train():
    count, began = 0, time.time()
    for batch in oomph.steps(tf.data.Dataset.range(60), state=tf.train.Checkpoint(w=w, done=done)):
        if "draws" in sys.argv:
            noisy()
        if "counts" in sys.argv:
            count += 1
            w.assign_add([count, 0.5])
        done.assign_add(1)
        time.sleep(0.03)
        began = time.time() - began + began

train()
"""


@pytest.mark.parametrize(
    ("option", "reason"),
    [
        pytest.param(
            "draws", "random numbers whose state is inside TensorFlow's kernels, in noisy", marks=pytest.mark.slow
        ),
        pytest.param("counts", "count, which the loop changes but state= does not contain", marks=pytest.mark.slow),
        pytest.param("nothing", None, marks=pytest.mark.slow),
    ],
)
def test_preempted_loop_reports_lost_state_without_repeated_steps(work, option, reason):
    """Keras is not loaded until oomph needs it. The run is preempted, so that there is nothing to compare."""
    work.write(FORGETFUL)
    running = work.start("train.py", option)
    running.wait_for_step(10)
    running.process.send_signal(signal.SIGTERM)
    assert running.finish(seconds=60).returncode == 75
    ended = work.oomph("--resume=run", "train.py", option)
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert ended.summary["steps"] == 60
    assert ended.summary["exactness"] == ("unverified" if reason is None else "not-equal")
    assert ended.summary["exactness_reasons"] == ([] if reason is None else [reason])


@pytest.mark.slow
def test_loop_resumes_with_an_edited_learning_rate_but_not_with_another_model(work):
    script = work.write(EDITED)
    running = work.start("--checkpoint-every=5", script)
    running.wait_for_step(12)
    running.process.send_signal(signal.SIGTERM)
    assert running.finish(seconds=60).returncode == 75
    work.write(EDITED.replace("SGD(0.5)", "SGD(0.25)").replace("epochs = 4", "epochs = 5"))
    running = work.start("--resume=run", script)
    running.wait_for_step(60, attempt=2)
    running.process.send_signal(signal.SIGTERM)
    ended = running.finish(seconds=60)
    assert ended.returncode == 75
    (resumed,) = ended.events("resumed")
    assert ended.summary["exactness"] == "not-equal"
    assert [str(reason_from(each)) for each in resumed.data["meant"]] == [
        "train.py was edited",
        "epochs: range(0, 4) → range(0, 5)",
        "learning rate of state[1]: 0.5 → 0.25",
    ]
    work.write(EDITED.replace("Dense(1)", "Dense(2)"))
    refused = work.oomph("--resume=run", script)
    assert refused.returncode == 93
    assert any("loop at train.py:" in line and "cannot be resumed" in line for line in refused.said)
    work.write(EDITED)
    assert work.oomph("--resume=run", script).returncode == 0


@pytest.mark.slow
def test_other_script_edits_are_reported(work):
    work.write(EDITED)
    running = work.start("--checkpoint-every=5", "train.py")
    running.wait_for_step(12)
    running.process.send_signal(signal.SIGTERM)
    assert running.finish(seconds=60).returncode == 75
    work.write(EDITED.replace("** 2", "** 4"))
    ended = work.oomph("--resume=run", "train.py")
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert ended.summary["exactness"] == "not-equal"
    assert "train.py was edited" in ended.summary["exactness_reasons"]


@pytest.mark.slow
@pytest.mark.parametrize(("step", "is_lost"), [(12, True), (72, False)], ids=["an epoch is to come", "the last epoch"])
def test_unrepeatable_epoch_order_is_reported(work, step, is_lost):
    flat = "tf.data.Dataset.range(2).flat_map(lambda n: tf.data.Dataset.from_tensor_slices(x).shuffle(160))"
    text = EDITED.replace("tf.data.Dataset.from_tensor_slices(x)", flat).replace("keras.utils.set_random_seed(1)", "")
    work.write(text.replace("epochs = 4", "epochs = 2"))
    running = work.start("--checkpoint-every=5", "train.py")
    running.kill_at_step(step)
    ended = running.finish()
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert ended.events("resumed")
    assert ("the order of later epochs, which has no seed" in ended.summary["exactness_reasons"]) is is_lost


EDITED = """
import time, keras, numpy as np, oomph, tensorflow as tf
keras.utils.set_random_seed(1)
x = np.random.default_rng(0).normal(size=(160, 3)).astype("float32")
model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
optimizer = keras.optimizers.SGD(0.5)
epochs = 4
for batch in oomph.steps(tf.data.Dataset.from_tensor_slices(x).batch(8), epochs, state=[model, optimizer]):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(model(batch) ** 2)
    optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
    time.sleep(0.03)
"""
