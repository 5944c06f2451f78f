"""Enabling, fitting and disabling over and over in one process leaves nothing behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

PROGRAM = """
import gc, hashlib, json, os, resource, sys, weakref
import keras, numpy as np, oomph
x = np.random.default_rng(0).random((64, 4)); y = x.sum(1)
models = []
def fit():
    keras.utils.set_random_seed(3)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(8), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    model.fit(x, y, epochs=1, batch_size=16, verbose=0)
    models.append(weakref.ref(model))
    return hashlib.md5(b"".join(w.tobytes() for w in model.get_weights())).hexdigest()
def rss():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
def ours():
    gc.collect()
    return sum(str(type(each).__module__).startswith("oomph.") for each in gc.get_objects())
def cycles(count, before, after):
    weights, start = set(), rss()
    for _ in range(count):
        before(); weights.add(fit()); after()
    gc.collect()
    return weights, (rss() - start) / count
count = int(sys.argv[1])
fit()
plain, grown_plain = cycles(count, lambda: None, lambda: None)
cycles(1, oomph.enable, oomph.disable)
files, objects = len(os.listdir("/proc/self/fd")), [ours()]
guarded, grown = set(), []
for half in (count // 2, count - count // 2):
    weights, grew = cycles(half, oomph.enable, oomph.disable)
    guarded |= weights; grown.append(grew); objects.append(ours())
left = {"files": len(os.listdir("/proc/self/fd")) - files}
left["objects"] = min(objects[1] - objects[0], objects[2] - objects[1])
left["models"] = sum(ref() is not None for ref in models)
same = plain == guarded and len(plain) == 1
print(json.dumps({**left, "same": same, "grown": sum(grown) / 2, "grown_plain": grown_plain}))
"""


def run(folder, count: int) -> dict:
    (folder / "program.py").write_text(PROGRAM)
    environ = {k: v for k, v in os.environ.items() if not k.startswith("OOMPH_")}
    environ |= {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
    command = [sys.executable, "program.py", str(count)]
    ended = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=600)
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert ended.stderr.count("guarding fit at program.py") == count + 1, ended.stderr[-3000:]
    found: dict = json.loads(ended.stdout)
    return found


@pytest.mark.parametrize("count", [5, pytest.param(50, marks=pytest.mark.slow)])
def test_cycles_leave_nothing_behind(tmp_path, count):
    found = run(tmp_path, count)
    assert found["same"], found
    assert (found["files"], found["models"]) == (0, 0), found
    assert found["objects"] < count // 2, f"a few objects are made once and kept, but none in each cycle: {found}"
    assert found["grown"] < found["grown_plain"] + 4e6, f"TensorFlow itself keeps what it traces: {found}"
