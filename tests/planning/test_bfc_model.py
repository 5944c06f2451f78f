"""The BFC model compared with what TensorFlow's own allocator does for the same requests."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys

import pytest

from oomph.planning.allocator import Allocator, chunks_of

MIB = 1 << 20
REQUESTS = """
import json, os, random, sys
os.environ.update(TF_CPU_ALLOCATOR_USE_BFC="1", TF_CPU_BFC_MEM_LIMIT_IN_MB="2000", TF_CPP_MIN_LOG_LEVEL="3")
import tensorflow as tf
def used():
    return tf.config.experimental.get_memory_info("CPU:0")["current"]
tf.zeros([1])
before, chance, live, seen = used(), random.Random(3), [], []
for _ in range(120):
    if live and chance.random() < 0.45:
        live.pop(chance.randrange(len(live)))
    else:
        live.append(tf.raw_ops.Empty(shape=[chance.choice([3, 5, 9, 17, 40, 100]) * 97_000], dtype=tf.uint8))
    seen.append(used() - before)
print(json.dumps(seen))
"""


def requests() -> list[int]:
    """Run the same requests on the model."""
    allocator, chance, live, seen = Allocator(), random.Random(3), [], []
    for _ in range(120):
        if live and chance.random() < 0.45:
            allocator.release(live.pop(chance.randrange(len(live))))
        else:
            handle = allocator.allocate(chance.choice([3, 5, 9, 17, 40, 100]) * 97_000)
            assert handle is not None
            live.append(handle)
        seen.append(allocator.in_use)
    return seen


def test_model_allocates_chunks_like_tensorflow() -> None:
    environ = os.environ | {"CUDA_VISIBLE_DEVICES": "-1"}
    done = subprocess.run(
        [sys.executable, "-c", REQUESTS], capture_output=True, text=True, timeout=120, check=True, env=environ
    )
    real, modelled = json.loads(done.stdout), requests()
    assert len(real) == len(modelled) > 100
    for one, other in zip(real, modelled, strict=True):
        assert other == pytest.approx(one, rel=0.1, abs=3 * MIB)
    assert sum(modelled) == pytest.approx(sum(real), rel=0.05)


def test_request_is_rounded_and_a_much_larger_chunk_is_split() -> None:
    allocator = Allocator()
    one = allocator.allocate(1)
    assert one is not None
    assert allocator.in_use == 256
    allocator.release(one)
    assert allocator.in_use == 0
    assert allocator.peak == 256
    assert allocator.reserved == 2 * MIB


def test_chunk_smaller_than_twice_the_request_is_not_split() -> None:
    allocator = Allocator()
    first, rest = allocator.allocate(1000 * 256), allocator.allocate(1)
    assert first is not None
    assert rest is not None
    allocator.release(first)
    allocator.allocate(501 * 256)
    assert allocator.in_use == 1001 * 256


def test_adjacent_free_chunks_are_merged() -> None:
    allocator = Allocator(limit=2 * MIB)
    handles = [allocator.allocate(MIB // 2) for _ in range(4)]
    assert None not in handles
    assert allocator.allocate(1) is None, "the limit is reached"
    for handle in handles[1:3]:
        assert handle is not None
        allocator.release(handle)
    assert allocator.allocate(MIB) is not None


def test_fragmented_memory_cannot_satisfy_a_large_request() -> None:
    allocator = Allocator(limit=2 * MIB)
    handles = [allocator.allocate(MIB // 2) for _ in range(4)]
    for handle in (handles[0], handles[2]):
        assert handle is not None
        allocator.release(handle)
    assert allocator.allocate(MIB) is None


def test_large_array_gets_a_whole_chunk_if_too_little_would_remain() -> None:
    """A 256 MiB region for 188 MB: the remainder is too small to be split off."""
    assert chunks_of([188_160_000]) == 256 * MIB
    assert chunks_of([100 * MIB]) == 128 * MIB
    assert chunks_of([MIB, 100]) == MIB + 256
    assert chunks_of([]) == 0


def test_predicted_chunk_of_a_large_array_matches_tensorflow() -> None:
    """Measured in a training run whose arrays took 219.5 MB while 269.5 MB were in use before its first step."""
    code = """
import os
os.environ.update(TF_CPU_ALLOCATOR_USE_BFC="1", TF_CPU_BFC_MEM_LIMIT_IN_MB="2000", TF_CPP_MIN_LOG_LEVEL="3")
import numpy as np, tensorflow as tf
tf.zeros([1])
before = tf.config.experimental.get_memory_info("CPU:0")["current"]
kept = tf.raw_ops.Empty(shape=[188_160_000], dtype=tf.uint8)
print(tf.config.experimental.get_memory_info("CPU:0")["current"] - before)
"""
    environ = os.environ | {"CUDA_VISIBLE_DEVICES": "-1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, env=environ)
    assert int(done.stdout) == chunks_of([188_160_000])
