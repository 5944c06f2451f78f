"""The cost of `%load_ext oomph` in a fresh shell, before anything imports TensorFlow."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys, time
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
began = time.process_time()
shell.run_line_magic("load_ext", "oomph")
print(time.process_time() - began, any(name in sys.modules for name in ("tensorflow", "keras", "numpy")))
"""


@pytest.mark.alone
def test_extension_loads_in_50_ms_without_tensorflow(tmp_path):
    costs = []
    for _ in range(3):
        command = [sys.executable, "-c", PROGRAM]
        ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)
        seconds, has_tensorflow = ended.stdout.split()
        assert has_tensorflow == "False"
        costs.append(float(seconds))
    assert min(costs) <= 0.05, costs
    assert not (tmp_path / ".oomph").exists(), "nothing is written before Keras is imported"


def test_supervisor_does_not_import_what_only_a_death_needs(tmp_path):
    late = ["ctypes.util", "dataclasses", "hashlib", "platform", "psutil", "shutil", "tempfile"]
    words = f"import sys, oomph.notebook.kernel.supervise; print([name for name in {late} if name in sys.modules])"
    ended = subprocess.run([sys.executable, "-c", words], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert ended.stdout == "[]\n", ended.stderr
