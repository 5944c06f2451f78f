"""A cell that really runs out of memory recovers: the same weights, one display that says so, no memory dump."""

from __future__ import annotations

import numpy as np

CELLS = (
    """
import os, keras, numpy as np
keras.config.set_floatx("float64")
keras.utils.set_random_seed(2)
rng = np.random.default_rng(2)
x, y = rng.random((4096, 64)), rng.random((4096, 1))
layers = [keras.layers.Dense(6000, "relu"), keras.layers.Dense(1)]
model = keras.Sequential([keras.Input((64,)), *layers])
model.compile(keras.optimizers.SGD(0.01), "mse", jit_compile=False)
""",
    "history = model.fit(x, y, batch_size=2048, epochs=1, shuffle=False, verbose=2)",
    "np.savez('{}', *model.get_weights())",
)
POOL = {"TF_CPU_ALLOCATOR_USE_BFC": "1", "TF_CPU_BFC_MEM_LIMIT_IN_MB": "140", "TF_CPP_MIN_LOG_LEVEL": "0"}
STOPS = """
class Stops(keras.callbacks.Callback):
    def on_epoch_begin(self, *_):
        raise error
try:
    model.fit(x, y, verbose=0, callbacks=[Stops()])
except BaseException as caught:
    print(repr(caught), os.fstat(2).st_ino == ours)
"""


def test_out_of_memory_in_a_cell_gives_the_same_weights_and_a_single_display(start, tmp_path):
    plain = start()
    for cell in CELLS:
        plain.good(cell.format("plain.npz"))
    plain.end()
    kernel = start(**POOL)
    kernel.good(CELLS[0])
    kernel.good("%load_ext oomph\nours = os.fstat(2).st_ino")
    ran = kernel.good(CELLS[1], after=0.5)
    kernel.good(CELLS[2].format("short.npz"))
    with np.load(tmp_path / "plain.npz") as enough, np.load(tmp_path / "short.npz") as short:
        for name in enough.files:
            np.testing.assert_allclose(short[name], enough[name], rtol=0, atol=1e-12)

    displays = {each["transient"]["display_id"] for each in ran.own("display_data")}
    assert len(displays) == 1
    assert displays == {each["transient"]["display_id"] for each in ran.own("update_display_data")}
    story = ran.told.splitlines()
    assert any("out of memory at batch 2048" in line for line in story), story
    assert any("recovered in" in line for line in story), story
    assert story[-1].startswith("oomph: fit 1 (")
    assert "; micro-batches of " in story[-1], story
    assert story[-1].endswith("; exact"), story

    assert "2/2" in ran.out
    assert "bfc_allocator" not in ran.err
    assert "oomph:" not in ran.err
    assert len(ran.err) < 1500
    assert any("notebook/stderr/1-memory.log" in line for line in story), story
    report = tmp_path / ".oomph/notebooks/notebook/stderr/1-memory.log"
    assert report.read_text().count("bfc_allocator") > 100

    for error in ("ValueError('mine')", "KeyboardInterrupt()"):
        assert kernel.good(f"error = {error}\n{STOPS}").out == f"{error} True\n", "stderr is as it was"
