"""Scripts that call fit more than once, in all the usual ways."""

from __future__ import annotations

import pytest

NAMES = ["head", "all", "failed", *(f"fold{n}" for n in range(3)), *(f"trial{n}" for n in (2, 4, 6, 8, 10)), "outer"]


@pytest.fixture(scope="module")
def plain(shared):
    shared.script("many_fits.py")
    ended = shared.plain("many_fits.py", "plain.npz")
    assert ended.returncode == 0, ended.stderr[-3000:]
    return ended


@pytest.fixture(scope="module")
def killed(shared, plain):
    """The same under oomph, killed in a fit that later fails, and in the search after it."""
    running = shared.start("--checkpoint-every=7", "many_fits.py", "ours.npz")
    running.wait_for(lambda: any(event.data["fit"] == 2 for event in running.journal("fit-started")))
    running.kill_at_step(50, attempt=1)
    running.wait_for(lambda: any(event.data["fit"] == 8 for event in running.journal("fit-started")))
    steps = running.progress().steps
    running.kill_at_step(steps + 9, attempt=2)
    return running.finish()


@pytest.mark.slow
def test_many_kinds_of_fits_are_bit_identical_after_kills(shared, plain, killed, same_bits):
    assert killed.returncode == 0, killed.stderr[-3000:]
    assert killed.stdout == plain.stdout
    same_bits(shared.folder / "ours.npz", shared.folder / "plain.npz")
    assert killed.summary["restarts"] == 2


@pytest.mark.slow
def test_finished_fits_are_not_trained_again(killed):
    last = [event for event in killed.events("resumed") if event.attempt == 3]
    finished = [event.data["fit"] for event in last if event.data["kind"] == "finished"]
    assert finished == [0, 1, 3, 4, 5, 6, 7], "all but the one that failed, and those after the kill"
    gone_on = [event.data["fit"] for event in last if event.data["kind"] == "exact"]
    assert gone_on == [2, 8], "the one that failed fails again, from its last checkpoint on"


@pytest.mark.slow
def test_nested_fit_does_not_get_its_own_number(killed):
    assert max(event.data["fit"] for event in killed.events("fit-started")) == len(NAMES) - 1
    assert len({event.data["site"] for event in killed.events("fit-started")}) == 1


@pytest.mark.slow
def test_child_processes_are_guarded_but_not_checkpointed(work, same_bits):
    work.script("children.py")
    plain = work.plain("children.py", "spawn")
    (work.folder / "spawn.npz").rename(work.folder / "plain.npz")
    ours = work.oomph("--checkpoint-every=1", "children.py", "spawn", "fork")
    assert (ours.returncode, ours.stdout) == (0, "spawn ended with 0\nfork ended with 0\n"), ours.stderr[-3000:]
    assert plain.stdout == "spawn ended with 0\n"
    for method in ("spawn", "fork"):
        same_bits(work.folder / f"{method}.npz", work.folder / "plain.npz")
    roles = [event.role for event in ours.events("fit-started")]
    assert len(set(roles)) == 2
    assert all(role.startswith("worker") for role in roles)
    assert {event.data["guard"] for event in ours.events("fit-started")} == {"exact"}
    assert ours.events("checkpoint") == []


TWENTY = """
import keras, numpy as np, os, pathlib, signal, sys
keras.utils.set_random_seed(1)
x, y = np.random.rand(32, 64).astype("float32"), np.zeros((32, 1), "float32")
for fold in range(20):
    model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(256), keras.layers.Dense(1)])
    model.compile("adam", "mse", jit_compile=False)
    model.fit(x, y, batch_size=16, epochs=1, verbose=0)
run = pathlib.Path("run")
sizes = [sum(file.stat().st_size for file in end.iterdir()) for end in run.glob("checkpoints/finished-*")]
print(len(sizes), sum(sizes))
if "--fail" in sys.argv:
    raise SystemExit(3)
"""


def size_of(folder) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


@pytest.mark.slow
def test_end_states_of_fits_are_kept_only_while_needed(work):
    work.write(TWENTY)
    failed = work.oomph("--checkpoint-every=1000", "train.py", "--fail")
    assert failed.returncode == 3, failed.stderr[-3000:]
    count, kept_bytes = map(int, failed.stdout.split())
    state_bytes = 3 * 4 * (64 * 256 + 256 + 256 + 1)  # weights and two Adam slots
    assert count == 20
    assert 20 * state_bytes < kept_bytes < 20 * (state_bytes + 50_000)
    assert size_of(failed.folder) > kept_bytes, "it may be gone on with"
    work.write(TWENTY.replace('if "--fail" in sys.argv:', "if False:"))
    done = work.oomph("--resume=run", "train.py", "--fail")
    assert done.returncode == 0, done.stderr[-3000:]
    assert [event.data["kind"] for event in done.events("resumed")] == ["finished"] * 20
    assert not (done.folder / "checkpoints").exists()
    assert size_of(done.folder) < 500_000, "journal, summary, stderr"


@pytest.mark.slow
def test_end_states_that_are_too_slow_to_save_are_not_kept(work):
    """Forty fits of about ten milliseconds each. Those whose end state was not kept train again and are compared."""
    many = TWENTY.partition("for fold")[0] + (
        'model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(1)])\nmodel.compile("sgd", "mse")\n'
        "for turn in range(40):\n    model.fit(x, y, batch_size=32, verbose=0)\n"
        'if "--fail" in sys.argv:\n    raise SystemExit(3)\nprint(model.get_weights())\n'
    )
    work.write(many)
    expected = work.plain("train.py").stdout
    failed = work.oomph("train.py", "--fail")
    finished = failed.events("fit-finished")
    assert (failed.returncode, len(finished)) == (3, 40)
    dear = [event for event in finished if event.data["too_dear"]]
    assert 10 < len(dear) < 40
    assert {event.data.get("state") for event in dear} == {None}
    spent = sum(event.data["seconds"] for event in failed.events("checkpoint"))
    assert spent <= 0.02 * failed.summary["seconds"] + 0.1, "the one that crosses the border costs more than a share"
    assert sum("end states of short fits, such as the one at train.py:" in line for line in failed.said) == 1
    assert sum("guarding fit" in line for line in failed.said) == 1
    work.write(many.replace('if "--fail" in sys.argv:', "if False:"))
    done = work.oomph("--resume=run", "train.py", "--fail")
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout == expected
    assert len(done.events("resumed")) == 40 - len(dear)
    assert sum("trains again from its beginning: an earlier attempt finished it" in line for line in done.said) == 1


@pytest.mark.slow
def test_callback_list_shared_by_two_fits_sees_every_epoch(work):
    """Keras uses a CallbackList as it is, so what was added for the first fit must not remain for the second."""
    work.write(
        "import os, signal, keras, numpy as np\n"
        "keras.utils.set_random_seed(1)\n"
        "class Kill(keras.callbacks.Callback):\n"
        "    def on_epoch_begin(self, epoch, logs=None):\n"
        "        print('epoch', epoch, flush=True)\n"
        "    def on_train_batch_end(self, batch, logs=None):\n"
        "        if self.model.optimizer.iterations == 25 and not os.path.exists('killed'):\n"
        "            open('killed', 'w').close(); os.kill(os.getpid(), signal.SIGKILL)\n"
        "x = np.zeros((160, 4), 'float32')\nmodel = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])\n"
        "model.compile('sgd', 'mse', jit_compile=False)\n"
        "both = keras.callbacks.CallbackList([Kill()], add_history=True, model=model)\n"
        "own = list(both.callbacks)\n"
        "for epochs in (4, 3):\n"
        "    model.fit(x, x[:, :1], batch_size=16, epochs=epochs, verbose=0, callbacks=both)\n"
        "    print('fitted', both.callbacks == own)\n"
    )
    ours = work.oomph("--checkpoint-every=4", "train.py")
    assert ours.returncode == 0, ours.stderr[-3000:]
    first, second = ours.stdout.split("fitted True\n")[:2]
    assert first.split() == ["epoch", "0", "epoch", "1", "epoch", "2", "epoch", "2", "epoch", "3"]
    assert second.split() == ["epoch", "0", "epoch", "1", "epoch", "2"]


LOOP_OF_FITS = """
import gc
import keras
import numpy as np
import tensorflow as tf

gc.disable()
x = np.ones((2000, 600), "float32")
model = keras.Sequential([keras.Input((600,)), keras.layers.Dense(1)])
model.compile("sgd", "mse", jit_compile=False)
for turn in range(3):
    model.fit(x, x[:, :1], batch_size=500, epochs=1, verbose=0, validation_split=0.2)
    print("in use", tf.config.experimental.get_memory_info("CPU:0")["current"])
"""


def test_data_memory_is_freed_when_a_fit_returns(work, memory):
    """The data takes 5 MB. Plain Keras also releases it without a garbage collection."""
    work.write(LOOP_OF_FITS)
    ended = work.oomph("train.py", env=memory(500))
    assert ended.returncode == 0, ended.stderr[-3000:]
    in_use = [int(line.split()[-1]) for line in ended.stdout.splitlines() if line.startswith("in use")]
    assert len(in_use) == 3
    assert max(in_use) < 1_000_000
