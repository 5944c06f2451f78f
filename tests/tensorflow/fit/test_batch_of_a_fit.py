from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from oomph.resume.fit.reporting import batch_size, memory_taken

ROWS = np.zeros((100, 3), "float32")
DATA = tf.data.Dataset.from_tensor_slices(ROWS)
UNKNOWN = SimpleNamespace(data_adapter=SimpleNamespace(batch_size=None))


@pytest.mark.parametrize(
    ("data", "size"),
    [
        (DATA.batch(32), 32),
        (DATA.shuffle(10).batch(32).map(lambda x: x + 1, num_parallel_calls=2).prefetch(2), 32),
        (DATA.batch(32).cache().repeat(2).take(3).skip(1), 32),
        (DATA.batch(8).unbatch().batch(16), 16),
        (DATA.batch(8).unbatch(), None),
        (DATA.batch(8).rebatch(4), None),
        (DATA.batch(8).filter(lambda x: True), None),
        (tf.data.Dataset.zip((DATA.batch(8), DATA.batch(8))), None),
        (DATA, None),
        (ROWS, None),
        (None, None),
    ],
)
def test_batch_size_is_read_from_the_pipeline(data: Any, size: int | None) -> None:
    assert batch_size(UNKNOWN, data) == size


def test_batch_size_of_arrays_is_read_from_keras() -> None:
    assert batch_size(SimpleNamespace(data_adapter=SimpleNamespace(batch_size=24)), ROWS) == 24
    assert batch_size(None, ROWS) is None


def test_a_cpu_without_a_memory_limit_reports_no_device_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TF_CPU_BFC_MEM_LIMIT_IN_MB", raising=False)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    assert memory_taken(model, UNKNOWN, DATA.batch(7), 8_000) == {
        "batch_size": 7, "device_peak_bytes": None, "device_limit_bytes": None, "kept_bytes": None,
    }  # fmt: skip


def test_memory_taken_counts_weights_and_optimizer_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_CPU_ALLOCATOR_USE_BFC", "1")
    monkeypatch.setenv("TF_CPU_BFC_MEM_LIMIT_IN_MB", "64")
    monkeypatch.setattr("oomph.resume.fit.reporting.peak_bytes_of_device", lambda: 9_000)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(100)])
    model.compile("adam", "mse")
    model.optimizer.build(model.trainable_variables)
    taken = memory_taken(model, UNKNOWN, DATA.batch(7), 8_000)
    assert (taken["device_limit_bytes"], taken["device_peak_bytes"]) == (64 << 20, 9_000)
    assert memory_taken(model, UNKNOWN, DATA.batch(7), 10_000)["device_peak_bytes"] == 10_000
    assert 3 * 400 * 4 <= (taken["kept_bytes"] or 0) <= 3 * 400 * 4 + 16, "weights and two moments, and two counters"
