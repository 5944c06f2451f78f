"""A real out-of-memory error in a cell: one display tells of the recovery, and the allocator's report is in a file."""

from __future__ import annotations

from pathlib import Path

import pytest
from shown_kernel import Kernel

_POOL = {"TF_CPU_ALLOCATOR_USE_BFC": "1", "TF_CPU_BFC_MEM_LIMIT_IN_MB": "80", "TF_ENABLE_ONEDNN_OPTS": "0"}

_SESSION = """
import os
from oomph.inject import hook
from oomph.notebook.display import showing
from oomph.protocol.handover import Handover
from oomph.script.session import join
session = join(Handover(package="", run_dir={run!r}))
hook.after_import(hook.guarding(lambda: session))
showing.begin(session)
import numpy as np, keras
keras.utils.set_random_seed(1)
# The outputs of the layers alone, which the gradients need, take 96 MiB.
layers = [keras.layers.Dense(512, "relu") for _ in range(12)]
model = keras.Sequential([keras.Input((64,)), *layers, keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.01), "mse", jit_compile=False)
x, y = np.random.rand(4096, 64).astype("float32"), np.random.rand(4096, 1).astype("float32")
ours = os.fstat(2).st_ino
"""


@pytest.mark.timeout(200)
def test_recovered_fit_shows_one_display_and_no_red_line(tmp_path: Path) -> None:
    kernel = Kernel(tmp_path, CUDA_VISIBLE_DEVICES="-1", **_POOL)
    try:
        kernel.run(_SESSION.format(run=str(tmp_path / "run")), seconds=90)
        cell = kernel.run("history = model.fit(x, y, batch_size=4096, epochs=2, verbose=2)", seconds=90, after=0.5)
        displays = {each["content"]["transient"]["display_id"] for each in cell.of("display_data")}
        updates = {each["content"]["transient"]["display_id"] for each in cell.of("update_display_data")}
        story = cell.of("update_display_data")[-1]["content"]["data"]["text/plain"]
        assert len(displays) == 1
        assert displays == updates
        assert "recovered in" in story
        assert "run/stderr/1-memory.log" in story
        assert "Epoch 2/2" in cell.stream("stdout")
        assert "bfc_allocator" not in cell.stream("stderr")
        assert "oomph:" not in cell.stream("stderr")
        assert len(cell.stream("stderr")) < 1500
        report = (tmp_path / "run" / "stderr" / "1-memory.log").read_text()
        assert report.count("bfc_allocator") > 100

        failing = "class Stops(keras.callbacks.Callback):\n    def on_epoch_begin(self, *_):\n        raise error\n"
        for error in ("ValueError('mine')", "KeyboardInterrupt()"):
            tried = "try: model.fit(x, y, verbose=0, callbacks=[Stops()])\nexcept BaseException as e: print(repr(e))"
            caught = kernel.run(f"error = {error}\n{failing}{tried}\nprint(os.fstat(2).st_ino == ours)", seconds=60)
            assert caught.stream("stdout") == f"{error}\nTrue\n"
    finally:
        kernel.end()
