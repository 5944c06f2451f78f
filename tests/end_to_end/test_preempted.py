"""A scheduler takes the machine away: the training is saved at the next border of two steps, and goes on elsewhere."""

from __future__ import annotations

import os
import signal
import time

import pytest

STEPS = 120  # three_fits.py


@pytest.fixture(scope="module")
def plain(shared):
    return shared.undisturbed("three_fits.py")


def test_sigterm_and_later_sigusr1_to_the_script_itself_and_resume_lose_no_step(work, plain, same_bits):
    work.script("three_fits.py")
    running = work.start("--checkpoint-every=1000", "three_fits.py", "ours.npz")
    running.wait_for_step(20)
    running.process.send_signal(signal.SIGTERM)
    asked = time.monotonic()
    first = running.finish(seconds=30)
    assert (first.returncode, time.monotonic() - asked < 10) == (75, True)
    assert first.summary["exit_code"] == 75
    assert any("SIGTERM: " in line and "steps are saved; ending" in line for line in first.said)
    again = work.start("--resume=run", "three_fits.py", "ours.npz")
    pid = again.script_pid(2)
    again.wait_for_step(50, attempt=2)
    os.kill(pid, signal.SIGUSR1)  # as Slurm does, to every process of the job
    second = again.finish(seconds=30)
    assert second.returncode == 75
    last = work.oomph("--resume=run", "three_fits.py", "ours.npz")
    assert last.returncode == 0, last.stderr[-3000:]
    same_bits(work.folder / "ours.npz", plain)
    assert (last.summary["steps"], last.summary["steps_repeated"]) == (STEPS, 0)
    assert [event.data["signal"] for event in last.events("preempted")] == ["SIGTERM", "SIGUSR1"]
    assert last.summary["exactness"] == "unverified", "all was saved, so no step was repeated"


def test_a_warning_to_every_process_of_the_job_saves_once_and_ends_once(work):
    """Slurm's `--signal=USR1` without `B:`, and what Kubernetes or systemd send to a whole group."""
    work.script("three_fits.py")
    running = work.start("--checkpoint-every=1000", "three_fits.py", "ours.npz")
    running.wait_for_step(20)
    for pid in (running.process.pid, running.script_pid(1)):
        os.kill(pid, signal.SIGUSR1)
    ended = running.finish(seconds=60)
    assert ended.returncode == 75, ended.stderr[-3000:]
    (preempted,) = ended.events("preempted")
    assert preempted.data["signal"] == "SIGUSR1"
    assert preempted.data["steps"] == preempted.data["saved"] >= 20
    assert ended.summary["attempts"] == 1


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGUSR1])
def test_a_second_signal_ends_it_at_once(work, signum):
    work.write(
        "import time, keras, numpy as np\n"
        "class Slow(keras.callbacks.Callback):\n"
        "    def on_train_batch_end(self, batch, logs=None):\n"
        "        if batch == 3: open('slow', 'w').close(); time.sleep(60)\n"
        "x = np.zeros((160, 4), 'float32')\nmodel = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])\n"
        "model.compile('sgd', 'mse', jit_compile=False)\n"
        "model.fit(x, x[:, :1], batch_size=16, verbose=0, callbacks=[Slow()])\n"
    )
    running = work.start("--checkpoint-every=2", "train.py")
    running.wait_for((work.folder / "slow").exists)
    running.process.send_signal(signum)
    time.sleep(1)
    assert running.process.poll() is None  # it waits for the border
    running.process.send_signal(signum)
    asked = time.monotonic()
    ended = running.finish(seconds=30)
    assert (ended.returncode, time.monotonic() - asked < 3) == (75, True)
    assert ended.summary["attempts"] == 1


def test_a_wish_that_comes_after_the_last_step_is_granted_at_the_end_of_the_fit(work):
    work.write(
        "import os, signal, keras, numpy as np\n"
        "class Late(keras.callbacks.Callback):\n"
        "    def on_train_end(self, logs=None):\n"
        "        if not os.path.exists('late'): open('late', 'w').close(); os.kill(os.getpid(), signal.SIGTERM)\n"
        "x = np.zeros((160, 4), 'float32')\nmodel = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])\n"
        "model.compile('sgd', 'mse', jit_compile=False)\n"
        "model.fit(x, x[:, :1], batch_size=16, verbose=0, callbacks=[Late()])\nprint('after it')\n"
    )
    ended = work.oomph("train.py")
    assert (ended.returncode, ended.stdout) == (75, ""), ended.stderr[-3000:]
    assert any("SIGTERM: 10 of 10 steps are saved; ending" in line for line in ended.said)
    again = work.oomph("--resume=run", "train.py")
    assert (again.returncode, again.stdout) == (0, "after it\n"), again.stderr[-3000:]
    assert (again.summary["steps"], again.summary["steps_repeated"]) == (10, 0)
