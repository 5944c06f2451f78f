"""A cell that runs out of memory goes on, with the weights that enough memory gives."""

from __future__ import annotations

import numpy as np

CELLS = (
    """
import keras, numpy as np
keras.config.set_floatx("float64")
keras.utils.set_random_seed(2)
rng = np.random.default_rng(2)
x, y = rng.random((4096, 64)), rng.random((4096, 1))
layers = [keras.layers.Dense(6000, "relu"), keras.layers.Dense(1)]
model = keras.Sequential([keras.Input((64,)), *layers])
model.compile(keras.optimizers.SGD(0.01), "mse", jit_compile=False)
""",
    "model.fit(x, y, batch_size=2048, epochs=1, shuffle=False, verbose=0)",
    "np.savez('{}', *model.get_weights())",
)


def test_out_of_memory_in_a_cell_gives_the_weights_of_enough_memory(start, tmp_path):
    plain = start()
    for cell in CELLS:
        plain.good(cell.format("plain.npz"))
    plain.close()
    pool = {"TF_CPU_ALLOCATOR_USE_BFC": "1", "TF_CPU_BFC_MEM_LIMIT_IN_MB": "140"}
    short = start(**pool)
    short.good(CELLS[0])
    short.good("%load_ext oomph")
    told = short.good(CELLS[1]).told
    assert "out of memory at batch 2048" in told, told
    line = told.splitlines()[-1]
    assert line.startswith("oomph: fit 1 (")
    assert "; micro-batches of " in line, line
    assert line.endswith("; exact"), line
    short.good(CELLS[2].format("short.npz"))
    with np.load(tmp_path / "plain.npz") as enough, np.load(tmp_path / "short.npz") as ours:
        for name in enough.files:
            np.testing.assert_allclose(ours[name], enough[name], rtol=0, atol=1e-12)
