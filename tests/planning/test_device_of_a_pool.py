"""TensorFlow's memory pool on the CPU as the device of a plan."""

from __future__ import annotations

import pytest

from oomph.planning.device import pool_of
from oomph.planning.device_limit import limit_of

POOL = {"TF_CPU_ALLOCATOR_USE_BFC": "1", "TF_CPU_BFC_MEM_LIMIT_IN_MB": "48", "CUDA_VISIBLE_DEVICES": "-1"}


def test_limited_pool_is_a_fully_usable_device() -> None:
    device = limit_of(pool_of(POOL))
    assert device is not None
    assert device.usable == device.memory == 48 << 20
    assert not device.is_gpu


@pytest.mark.parametrize(
    "change",
    [
        {"TF_CPU_ALLOCATOR_USE_BFC": "0"},
        {"TF_CPU_BFC_MEM_LIMIT_IN_MB": ""},
        {"TF_CPU_BFC_MEM_LIMIT_IN_MB": "0"},
        {"TF_CPU_BFC_MEM_LIMIT_IN_MB": "a lot"},
        {"CUDA_VISIBLE_DEVICES": "0"},
    ],
)
def test_pool_without_a_limit_or_beside_a_gpu_is_not_taken_for_the_device(change: dict[str, str]) -> None:
    assert pool_of({**POOL, **change}) is None
