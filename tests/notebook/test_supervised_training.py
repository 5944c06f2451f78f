"""Training in a supervised kernel: after a kill, it resumes exactly; a slow answer to a prompt does not end it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from real_kernels import SupervisedKernel

from oomph.run.hang.limits import FLOOR_VARIABLE, UNTIMED_FACTOR

pytest.importorskip("tensorflow")

CELLS = [
    "import keras, numpy as np, hashlib, os, time",
    "x = np.random.default_rng(0).normal(size=(640, 8)).astype('float32'); y = x.sum(axis=1)",
    """keras.utils.set_random_seed(1)
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(16, 'relu'), keras.layers.Dense(1)])
model.compile('adam', 'mse')""",
    "class Dies(keras.callbacks.Callback):\n"
    "    def on_train_batch_end(self, batch, logs=None):\n"
    "        time.sleep(0.1)  # long enough for a checkpoint\n"
    "        if os.environ.get('DIES') and int(self.model.optimizer.iterations) == 50: os.kill(os.getpid(), 9)",
    "history = model.fit(x, y, batch_size=32, epochs=5, verbose=0, callbacks=[Dies()])",
    "print(hashlib.blake2b(b''.join(w.tobytes() for w in model.get_weights())).hexdigest())",
]


@pytest.mark.slow
def test_killed_training_ends_in_the_same_weights(tmp_path: Path) -> None:
    ends = []
    for folder, dies in (("undisturbed", ""), ("killed", "1")):
        (tmp_path / folder).mkdir()
        with SupervisedKernel(tmp_path / folder, DIES=dies) as kernel:
            answers = [kernel.run(code) for code in CELLS[:5]]
            if dies:
                (error,) = answers[-1].own("error")
                assert error["ename"] == "KernelDied"
                assert "fit 1, epoch 3" in error["traceback"][1]
                assert error["traceback"][2].startswith("Its variables are gone: run cells [1] to [5] again")
                kernel.run("import os; del os.environ['DIES']")
                answers = [kernel.run(code) for code in CELLS[:5]]
            assert [answer.reply["status"] for answer in answers] == ["ok"] * 5
            ends.append(kernel.run(CELLS[5]).out)
    assert ends[0] == ends[1] != ""
    journal = "".join(path.read_text() for path in (tmp_path / "killed").rglob("2-0-script.jsonl"))
    assert '"resumed"' in journal


@pytest.mark.slow
@pytest.mark.parametrize("asks", ["input('go on? ')", "import pdb; pdb.set_trace()"])
def test_slow_answer_to_a_callback_is_not_taken_for_a_hang(tmp_path: Path, asks: str) -> None:
    floor = 3
    with SupervisedKernel(tmp_path, **{FLOOR_VARIABLE: str(floor)}) as kernel:
        for code in CELLS[:3]:
            kernel.run(code)
        kernel.run(
            f"class Asks(keras.callbacks.Callback):\n    def on_epoch_begin(self, epoch, logs=None):\n        {asks}"
        )
        pid = kernel.pid
        request = kernel.send("model.fit(x, y, verbose=0, callbacks=[Asks()]); print('trained')", allow_stdin=True)
        assert kernel.client.get_stdin_msg(timeout=60)["msg_type"] == "input_request"
        time.sleep(floor * (UNTIMED_FACTOR + 3))
        kernel.client.input("c")
        assert kernel.wait(request).out.endswith("trained\n")
        assert kernel.pid == pid
