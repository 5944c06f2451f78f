"""What a restart changes, seen in the processes it affects: the driver in tests/rig with real TensorFlow."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytestmark = pytest.mark.rig

UUID = "GPU-00000000-0000-4000-8000-00000000000{}"
XID = "3,1,1,-;NVRM: Xid (PCI:0000:02:00): 79, pid={}, name=python, GPU has fallen off the bus.\\n"
ASYNC = "Using CUDA malloc Async allocator for GPU: 0"
BELOW_KERNEL_LOG = """
import sys
from pathlib import Path
from oomph.cli import main
from oomph.explain.reading.kernel_log import KernelLog
KernelLog.__init__.__defaults__ = (Path("kmsg"),)  # the machine's own log is not for tests to write in
sys.exit(main())
"""


def supervised(work, script, env, *words):
    """Return an `oomph run --no-guard` of a script that may write into its kernel log, the file `kmsg`."""
    (work.folder / "kmsg").touch()
    run = ("run", "--run-dir=run", "--no-guard", work.write(script), *words)
    return replace(work.plain("-c", BELOW_KERNEL_LOG, *run, env=env), folder=work.folder / "run")


def logs(ended):
    """What each attempt wrote to stderr, including TensorFlow's own lines."""
    return [path.read_text() for path in sorted(ended.folder.glob("stderr/*.log"))]


def two_gpus(rig, visible="0,1"):
    return {**rig, "FAKE_NGPU": "2", "CUDA_VISIBLE_DEVICES": visible}


LOSES_A_GPU = f"""
import os, pathlib
import tensorflow as tf
seen = tf.config.list_logical_devices("GPU")
print(len(seen), os.environ["CUDA_VISIBLE_DEVICES"], tf.zeros(3).device.rpartition("/")[2], flush=True)
if len(seen) == 2:
    with open("kmsg", "a") as log:
        log.write("{XID}".format(os.getpid()))
    os.abort()
"""


@pytest.mark.slow
def test_gpu_that_fell_off_the_bus_is_excluded_by_uuid(work, rig):
    ours = supervised(work, LOSES_A_GPU, two_gpus(rig))
    assert ours.returncode == 0, ours.stderr[-3000:]
    assert ours.stdout.splitlines() == ["2 0,1 device:GPU:0", f"1 {UUID.format(0)} device:GPU:0"]
    assert ours.summary["faults"] == {"hardware-fault": 1}
    assert ours.summary["changes"] == [f"without GPU {UUID.format(1)}"]
    assert "Xid" in ours.events("kernel-log")[0].data["lines"][0]


def test_run_with_only_a_broken_gpu_exits_with_75_after_one_retry(work, rig):
    """Runs without TensorFlow, since only the supervisor's knowledge matters."""
    script = f"import os\nopen('kmsg', 'a').write('{XID}'.format(os.getpid()))\nos.abort()\n"
    ours = supervised(work, script, two_gpus(rig, visible="1"))
    assert ours.returncode == 75
    assert ours.summary["attempts"] == 2, "one more try: an Xid 79 may have been the last of a passing trouble"
    assert ours.summary["changes"] == []


HAS_GAPS = """
import os, sys
import tensorflow as tf

def block(megabytes):
    with tf.device("GPU:0"):
        return tf.raw_ops.Empty(shape=[megabytes << 18], dtype=tf.float32)

blocks = [block(60) for _ in range(8)]  # of a device of 512 MB
del blocks[::2]
try:
    block(120)
except tf.errors.ResourceExhaustedError:
    sys.stderr.flush()
    os.abort()
print("fits with", os.environ["TF_GPU_ALLOCATOR"])
"""


@pytest.mark.slow
def test_fragmented_memory_switches_to_cuda_malloc_async(work, rig):
    ours = supervised(work, HAS_GAPS, {**rig, "TF_CPP_MIN_LOG_LEVEL": "0"})
    assert (ours.returncode, ours.stdout) == (0, "fits with cuda_malloc_async\n"), ours.stderr[-3000:]
    assert ours.summary["faults"] == {"device-oom-fragmentation": 2}
    assert ours.summary["changes"] == ["CUDA's own allocator (TF_GPU_ALLOCATOR=cuda_malloc_async)"]
    assert [ASYNC in log for log in logs(ours)] == [False, False, True], "TensorFlow has taken it"


ASKS_TOO_MUCH = """
import os, sys
import tensorflow as tf

grows = os.environ.get("TF_FORCE_GPU_ALLOW_GROWTH")
print(os.environ.get("TF_GPU_ALLOCATOR"), grows, flush=True)
try:
    with tf.device("GPU:0"):
        tf.raw_ops.Empty(shape=[(1 if grows else 4096) << 18], dtype=tf.float32)
except tf.errors.ResourceExhaustedError:
    sys.stderr.flush()
    os.abort()
"""


@pytest.mark.slow
def test_out_of_memory_outside_a_batch_escalates_to_memory_growth(work, rig):
    ours = supervised(work, ASKS_TOO_MUCH, {**rig, "TF_CPP_MIN_LOG_LEVEL": "0"})
    assert ours.returncode == 0, ours.stderr[-3000:]
    allocator = "cuda_malloc_async"
    assert ours.stdout.splitlines() == ["None None", "None None", f"{allocator} None", f"{allocator} true"]
    assert ours.summary["faults"] == {"device-oom": 3}
    assert [change.partition(" (")[0] for change in ours.summary["changes"]] == [
        "CUDA's own allocator",
        "GPU memory allocated as needed",
    ]
    assert [ASYNC in log for log in logs(ours)] == [False, False, True, True]
    told = ["TF_FORCE_GPU_ALLOW_GROWTH environment variable is set" in log for log in logs(ours)]
    assert told == [False, False, False, True]


USED = """
set gpus 1
at 0 0 mem_total 8G
at 0 0 mem_used 0
at 1 0 mem_used 4G
at 2 0 mem_used {left}
"""
HOLDS_MEMORY = """
import os, subprocess, sys
if os.path.exists("again"):
    print("free at", open("clock").read())
    sys.exit()
open("again", "w")
open("clock", "w").write("1")
later = "import time; time.sleep(3); open('clock', 'w').write('2')"
subprocess.Popen([sys.executable, "-S", "-c", later], start_new_session=True, close_fds=True)  # the driver, as it were
os.abort()
"""


def test_restart_waits_until_gpu_memory_is_free_again(work, rig):
    (work.folder / "clock").write_text("0")
    (work.folder / "nvml").write_text(USED.format(left="300M"))
    scripted = {"FAKE_NVML_SCRIPT": str(work.folder / "nvml"), "FAKE_NVML_CLOCK": str(work.folder / "clock")}
    ours = supervised(work, HOLDS_MEMORY, {**rig, **scripted})
    assert (ours.returncode, ours.stdout) == (0, "free at 2\n"), ours.stderr[-3000:]
    (waited,) = ours.events("gpu-memory-back")
    assert 2 < waited.data["seconds"] < 20
    assert ours.events("gpu-memory-held") == []
