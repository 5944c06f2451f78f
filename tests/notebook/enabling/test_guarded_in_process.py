"""Kernels that cannot use their notebook's run directory guard fits within the process, and say why in one line."""

from __future__ import annotations

from oomph.notebook import kernel_run
from oomph.notebook.naming import Notebook

MODEL = """
import os, keras, numpy as np
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
x = np.ones((32, 4)); y = np.ones((32, 1))
"""
FIT = "model.fit(x, y, verbose=0); print(type(model.train_function).__name__)"
ALONE = "fits are guarded, but neither checkpointed nor resumed"


def test_kernels_without_a_run_directory_guard_fits_and_say_why(start, tmp_path):
    first = kernel_run.begin(Notebook(tmp_path, "notebook"), "")
    (tmp_path / "file").mkdir()
    (tmp_path / "file/.oomph").write_text("")
    kernel = start()
    try:
        kernel.good("%load_ext oomph")
        told = kernel.good(MODEL).err
        assert told.count("oomph:") == 1, told
        assert "/notebooks/notebook is in use by" in told, told
        assert ALONE in told, told
        ran = kernel.good(FIT)
        assert ran.out == "GuardedStep\n"
        assert ran.told.splitlines()[-1].endswith(" s; exact"), ran.told
    finally:
        first.end()

    kernel.good("os.chdir('file')")
    told = kernel.good("%reload_ext oomph").err
    assert "cannot be written: " in told, told
    assert ALONE in told, told
    assert kernel.good(FIT).out == "GuardedStep\n"

    kernel.good("os.mkdir('gone'); os.chdir('gone'); os.rmdir(os.path.realpath('.'))")
    told = kernel.good("%reload_ext oomph").err
    assert "the working directory has been deleted" in told, told
    assert kernel.good(FIT).out == "GuardedStep\n"
