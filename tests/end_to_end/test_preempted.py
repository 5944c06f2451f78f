"""A scheduler preempts the machine, or the user presses Ctrl-C: all state is saved at the next step boundary."""

from __future__ import annotations

import os
import signal
import time

import pytest

from oomph.files.user_code import PACKAGE

STEPS = 120  # steps in three_fits.py


@pytest.fixture(scope="module")
def plain(shared):
    return shared.undisturbed("three_fits.py")


def test_preemption_by_sigterm_and_sigusr1_loses_no_steps(work, plain, same_bits):
    work.script("three_fits.py")
    running = work.start("--checkpoint-every=1000", "three_fits.py", "ours.npz")
    running.wait_for_step(20)
    running.process.send_signal(signal.SIGTERM)
    asked = time.monotonic()
    first = running.finish(seconds=30)
    assert (first.returncode, time.monotonic() - asked < 10) == (75, True)
    assert first.summary["exit_code"] == 75
    assert any("SIGTERM: " in line and "steps are saved; exiting" in line for line in first.said)
    again = work.start("--resume=run", "three_fits.py", "ours.npz")
    pid = again.script_pid(2)
    again.wait_for_step(50, attempt=2)
    os.kill(pid, signal.SIGUSR1)  # as Slurm does, to every process in the job
    second = again.finish(seconds=30)
    assert second.returncode == 75
    last = work.oomph("--resume=run", "three_fits.py", "ours.npz")
    assert last.returncode == 0, last.stderr[-3000:]
    same_bits(work.folder / "ours.npz", plain)
    assert (last.summary["steps"], last.summary["steps_repeated"]) == (STEPS, 0)
    assert [event.data["signal"] for event in last.events("preempted")] == ["SIGTERM", "SIGUSR1"]
    assert last.summary["exactness"] == "unverified", "all was saved, so no step was repeated"


def test_signal_to_all_processes_of_a_job_preempts_only_once(work):
    """Slurm's `--signal=USR1` without `B:` signals the whole group, as do Kubernetes and systemd."""
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


@pytest.mark.slow
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGUSR1])
def test_second_signal_stops_the_run_immediately(work, signum):
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
    assert running.process.poll() is None  # it waits for the end of the step
    running.process.send_signal(signum)
    asked = time.monotonic()
    ended = running.finish(seconds=30)
    assert (ended.returncode, time.monotonic() - asked < 3) == (75, True)
    assert ended.summary["attempts"] == 1


@pytest.mark.slow
def test_preemption_after_the_last_step_lets_the_fit_finish(work):
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
    assert any("SIGTERM: 10 of 10 steps are saved; exiting" in line for line in ended.said)
    again = work.oomph("--resume=run", "train.py")
    assert (again.returncode, again.stdout) == (0, "after it\n"), again.stderr[-3000:]
    assert (again.summary["steps"], again.summary["steps_repeated"]) == (10, 0)


@pytest.mark.slow
def test_ctrl_c_saves_a_checkpoint_and_resuming_loses_no_steps(work, plain, same_bits):
    work.script("three_fits.py")
    running = work.start("--checkpoint-every=1000", "three_fits.py", "ours.npz")
    running.wait_for_step(20)
    running.process.send_signal(signal.SIGINT)
    first = running.finish(seconds=30)
    assert first.returncode == 130
    assert first.own.rstrip().endswith("KeyboardInterrupt")
    assert f'File "{PACKAGE}' not in first.own
    assert "contextlib" not in first.own
    (event,) = first.events("interrupted")
    assert event.data["steps"] == event.data["saved"] >= 20
    resume = "TF_ENABLE_ONEDNN_OPTS=0 oomph run --resume=run --checkpoint-every=1000 three_fits.py"
    assert f"; all steps are saved; to resume: {resume} " in first.said[-1]
    last = work.oomph("--resume=run", "three_fits.py", "ours.npz")
    assert last.returncode == 0, last.stderr[-3000:]
    same_bits(work.folder / "ours.npz", plain)
    assert (last.summary["steps"], last.summary["steps_repeated"]) == (STEPS, 0)


@pytest.mark.slow
def test_script_that_handles_ctrl_c_keeps_its_checkpoint(work):
    """After a fault, and in the script's own resumable loop."""
    work.write(
        "import os, signal, sys, time, keras, numpy as np, tensorflow as tf, oomph\n"
        "x = tf.zeros((16, 4))\nstate = tf.Variable(0)\n"
        "try:\n"
        "    for batch in oomph.steps(tf.data.Dataset.from_tensors(x).repeat(20), epochs=5, state=[state]):\n"
        "        state.assign_add(1)\n"
        "        if state.numpy() == 10 and not os.path.exists('killed'):\n"
        "            open('killed', 'w').close(); os.kill(os.getpid(), signal.SIGKILL)\n"
        "        if state.numpy() == 50 and '--on' not in sys.argv:\n"
        "            os.kill(os.getppid(), signal.SIGINT); time.sleep(0.5)\n"
        "except KeyboardInterrupt:\n"
        "    print('saved my model at', int(state.numpy()))\n"
        "else:\n"
        "    print('done', int(state.numpy()))\n"
    )
    ended = work.oomph("--checkpoint-every=8", "train.py")
    assert (ended.returncode, ended.stdout) == (0, "saved my model at 50\n"), ended.stderr[-3000:]
    assert "interrupted: 50 of 50 steps are saved" in ended.stderr
    assert "of fit 1, which was interrupted; to continue it: oomph run --resume=run " in ended.said[-1]
    again = work.oomph("--resume=run", "train.py", "--on")
    assert (again.returncode, again.stdout) == (0, "done 100\n"), again.stderr[-3000:]
    assert not (again.folder / "checkpoints").exists()
