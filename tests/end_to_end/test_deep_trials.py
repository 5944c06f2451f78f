"""The `oomph doctor --deep` trials with TensorFlow: correct on the CPU, and as wrong on the rig as its kernels."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import oomph

pytestmark = pytest.mark.slow

SCRIPT = Path(oomph.__file__).parent / "doctor" / "live" / "trials.py"
TRIALS = ("list", "allocate", "matmul", "convolution", "rnn", "mixed-precision", "xla", "bandwidth")


def test_every_trial_succeeds_with_correct_results(work):
    """Compares the CPU with itself."""
    ended = work.plain(str(SCRIPT), "CPU:0", *TRIALS)
    rows = [document["row"] for document in map(json.loads, ended.stdout.splitlines()) if "row" in document]
    assert [row["trial"] for row in rows] == ["import", *TRIALS]
    assert [row for row in rows if not row["ok"]] == []


def test_all_reduce_of_two_devices_succeeds(work):
    code = (
        "import runpy, tensorflow as tf\n"
        "cpu = tf.config.list_physical_devices('CPU')[0]\n"
        "tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)\n"
        f"runpy.run_path({str(SCRIPT)!r}, run_name='trials')['_main']('CPU:0', ['all-reduce'])\n"
    )
    ended = work.plain(work.write(code))
    row = json.loads(ended.stdout.splitlines()[-1])["row"]
    assert (row["trial"], row["ok"], row["detail"]) == ("all-reduce", True, "2 devices")


@pytest.mark.rig
def test_wrong_trial_results_and_crashes_are_findings(work, rig):
    environ = work.environ(**rig, PYTHONPATH=str(Path(oomph.__file__).parents[1]))
    command = [sys.executable, "-m", "oomph", "doctor", "--deep", "--json"]
    ended = subprocess.run(command, cwd=work.folder, env=environ, capture_output=True, text=True, timeout=200)
    found = {entry["name"]: entry for entry in json.loads(ended.stdout)["checks"] if entry["name"].startswith("deep-")}
    assert set(found) == {"deep-import", *(f"deep-{name}" for name in TRIALS)}
    for name in ("import", "list", "allocate", "bandwidth"):
        assert found[f"deep-{name}"]["status"] == "pass", found[f"deep-{name}"]
    assert "differs from the CPU" in found["deep-matmul"]["message"]
    assert "ended by SIGSEGV" in found["deep-convolution"]["message"]
    assert found["deep-xla"]["status"] == "fail"
    assert ended.returncode == 1
    assert "oomph: GPU:0: matmul" in ended.stderr
