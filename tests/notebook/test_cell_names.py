"""The file names that versions of IPython give to cells, and how messages refer to a line of a cell."""

from __future__ import annotations

import pytest

from oomph.explain.evidence.evidence import Evidence
from oomph.explain.evidence.tracebacks import Tracebacks
from oomph.files.cell_names import count_in, names_cell, site_of
from oomph.protocol.python_stacks import blocking_line, parse

KERNEL = "/tmp/ipykernel_4711/1376910752.py"


@pytest.mark.parametrize(
    ("path", "count"),
    [
        (KERNEL, None),
        (r"C:\Users\ada\AppData\Local\Temp\ipykernel_4711\1376910752.py", None),
        ("<ipython-input-4-9c897f9acba8>", 4),
        ("/tmp/ipython-input-3184915917.py", None),  # Colab
        ("/tmp/ipython-input-12-2547853298.py", 12),
        ("<timed exec>", None),
        ("<timed eval>", None),
        ("<magic-timeit>", None),
    ],
)
def test_file_names_of_cells_are_recognised_with_their_execution_counts(path, count):
    assert names_cell(path)
    assert count_in(path) == count


@pytest.mark.parametrize(
    "path",
    ["train.py", "/home/ada/ipykernel_notes/train.py", "/home/ada/ipython-input.py", "<string>", "<stdin>", "", "?"],
)
def test_file_names_of_scripts_and_generated_code_are_not_taken_for_cells(path):
    assert not names_cell(path)
    assert count_in(path) is None


@pytest.mark.parametrize(
    ("path", "count", "site"),
    [
        ("/home/ada/train.py", None, "train.py:1"),
        (KERNEL, 4, "cell [4], line 1"),
        (KERNEL, None, "a cell, line 1"),
        ("<ipython-input-4-9c897f9acba8>", None, "cell [4], line 1"),
        ("/named/by/IPYKERNEL_CELL_NAME", 2, "cell [2], line 1"),
    ],
)
def test_line_of_a_cell_is_shown_with_the_execution_count(path, count, site):
    assert site_of(path, 1, count) == site


def test_line_that_blocks_a_kernel_is_shown_as_a_line_of_a_cell():
    dump = f"""Current thread 0x00007f0c2c9fd6c0 (most recent call first):
  File "/env/lib/python3.11/site-packages/keras/src/trainers/trainer.py", line 371 in fit
  File "{KERNEL}", line 3 in <module>
  File "/env/lib/python3.11/site-packages/IPython/core/interactiveshell.py", line 3823 in run_code
"""
    assert blocking_line(parse(dump), "/oomph") == "a cell, line 3 in <module> (trainer.py:371 in fit)"


@pytest.mark.parametrize(
    ("frame", "where"),
    [
        ("Cell In[4], line 1", "In[4]:1"),
        ("File /tmp/ipykernel_4711/1376910752.py:1, in <cell line: 1>()", f"{KERNEL}:1"),
        ("<ipython-input-4-9c897f9acba8> in step(x)", "<ipython-input-4-9c897f9acba8> in step"),
        ("File <timed exec>:2", "<timed exec>:2"),
    ],
)
def test_explain_finds_the_users_frame_in_a_notebook_traceback(frame, where):
    seen = Tracebacks()
    lines = ["ValueError                                Traceback (most recent call last)", frame]
    lines += ["File ~/env/lib/python3.11/site-packages/keras/src/trainers/trainer.py:371, in fit(self)"]
    for number, text in enumerate(lines):
        seen.see(Evidence("log", text, number))
    assert seen.where == where
