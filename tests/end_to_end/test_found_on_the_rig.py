"""What the monitor of `oomph run` finds on the rig's failing GPUs while real training continues."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.rig

MACHINE = """
set gpus 2
str * name Fake H100
at 0 * mem_total 80G
at 0 * mem_used 8G
at 0 * util 97
at 0 * sm_clock 1800
at 0 * sm_max 1980
at 0 0 throttle 0x20
at 3 0 sm_clock 900
at 2 1 xid 79
at 2 1 lost 1
"""
"""GPU 0 is slowed down by heat from the beginning; GPU 1 falls off the bus and is lost."""

TRAINS = """
import os

import keras
import numpy as np


class UntilTold(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        self.model.stop_training = os.path.exists("stop")


keras.utils.set_random_seed(1)
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(np.ones((64, 8), "float32"), np.ones((64, 1), "float32"), epochs=100000, verbose=0, callbacks=[UntilTold()])
"""


def test_attempt_records_the_gpus_that_cuda_shows_it(work, rig):
    ended = work.oomph(work.write("print('done')"), env={**rig, "FAKE_NGPU": "3", "CUDA_VISIBLE_DEVICES": "2,0"})
    assert ended.returncode == 0, ended.stderr[-3000:]
    (started,) = ended.events("attempt-started")
    assert [(gpu["index"], gpu["uuid"][-1], gpu["bus"]) for gpu in started.data["gpus"]] == [
        (2, "2", "00000000:03:00.0"),
        (0, "0", "00000000:01:00.0"),
    ]


@pytest.mark.slow
def test_overheating_and_a_lost_gpu_are_each_reported_once(work, rig):
    (work.folder / "timeline").write_text(MACHINE)
    gpus = {**rig, "CUDA_VISIBLE_DEVICES": "-1", "FAKE_NVML_SCRIPT": str(work.folder / "timeline")}
    running = work.start(work.write(TRAINS), env=gpus)
    told = running.wait_for(lambda: len(found := running.journal("finding")) > 1 and found)
    assert [(event.data["fault"], event.data["kind"]) for event in told] == [
        ("hardware-fault", "lost"),
        ("thermal-throttle", "heat"),
    ]
    during = watched(work)
    (work.folder / "stop").touch()
    ended = running.finish()
    assert ended.returncode == 0, ended.stderr[-3000:]
    lost, hot = (
        [line for line in ended.said if f"({page}). " in line]
        for page in ("hardware-fault, HWD801", "thermal-throttle, HWD802")
    )
    assert [line.split(":")[2].strip() for line in [*lost, *hot]] == [
        "GPU 1 (Fake H100)",
        "GPU 0 (Fake H100)",
    ]
    assert "the driver reports Xid 79" in lost[0]
    assert "slowed down by heat" in hot[0]
    assert ended.said[-1].startswith(
        "oomph: found in the run: hardware-fault (GPU 1 (Fake H100)), thermal-throttle (GPU 0"
    )
    assert [(each["fault"], each["code"], each["severity"]) for each in ended.summary["findings"]] == [
        ("hardware-fault", "HWD801", "critical"), ("thermal-throttle", "HWD802", "warning"),
    ]  # fmt: skip
    assert all(each["end"] >= each["begin"] for each in ended.summary["findings"])
    assert (ended.summary["exactness"], ended.summary["faults"]) == ("exact", {})
    after = watched(work)
    assert {each["fault"] for each in during["alerts"]} == {"thermal-throttle", "hardware-fault"}
    assert after["alerts"] == []
    assert len(after["incidents"]) == 2
    assert all(each["ended"] for each in after["incidents"])


LOSES = "set gpus 1\nstr * name Fake H100\nat 2 0 xid 79\nat 2 0 lost 1\n"
NOTES = "#!/bin/sh\ncat >> noted\necho >> noted\n"


@pytest.mark.slow
def test_lost_gpu_is_notified_while_the_script_runs(work, rig):
    (work.folder / "timeline").write_text(LOSES)
    (work.folder / "note.sh").write_text(NOTES)
    (work.folder / "note.sh").chmod(0o755)
    script = work.write("import os, time\nwhile not os.path.exists('stop'): time.sleep(0.1)")
    environ = {**rig, "FAKE_NVML_SCRIPT": str(work.folder / "timeline")}
    running = work.start("--notify=./note.sh", script, env=environ)
    noted = work.folder / "noted"
    running.wait_for(lambda: noted.exists() and noted.read_text().endswith("\n"))
    (work.folder / "stop").touch()
    assert running.finish().returncode == 0
    found, end = map(json.loads, noted.read_text().splitlines())
    assert (found["event"], found["finding"]["fault"], end["event"]) == ("finding", "hardware-fault", "finished")


FRAGMENTS = """
import numpy as np
import tensorflow as tf

import oomph

with tf.device("GPU:0"):
    blocks = [tf.zeros([2 << 20], tf.float32) for _ in range(62)]  # 8 MiB each, of about 500
del blocks[::2]


def wide(x):
    with tf.device("GPU:0"):
        return len(tf.zeros([len(x), 1 << 16], tf.float32))


print(sum(oomph.map_batches(wide, np.zeros((128, 1), "float32"), 64)))
"""


@pytest.mark.slow  # TensorFlow waits for memory for ten seconds
def test_fragmented_memory_is_reported_once(work, rig):
    """Uses TensorFlow's own allocator and its real report."""
    ended = work.oomph(work.write(FRAGMENTS), env={**rig, "TF_CPP_MIN_LOG_LEVEL": "0"})
    assert (ended.returncode, ended.stdout) == (0, "128\n"), ended.stderr[-3000:]
    assert len(ended.events("oom")) == 1
    (line,) = [line for line in ended.said if "(device-oom-fragmentation, OOM102)" in line]
    assert line.startswith("oomph: warning: TensorFlow's memory: 16 MiB did not fit, although 2")
    (found,) = ended.summary["findings"]
    assert found["code"] == "OOM102"
    assert found["seconds"] < 1, "it is of one moment"


def watched(work) -> dict:
    """Return what `oomph watch` shows about the run now."""
    words = [sys.executable, "-m", "oomph", "watch", "run", "--once", "--json"]
    seen = subprocess.run(words, cwd=work.folder, env=work.environ(), capture_output=True, check=True, timeout=60)
    return json.loads(seen.stdout)
