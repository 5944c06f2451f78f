"""A GPU that is slow with bfloat16 gets a warning and another line to add."""

from __future__ import annotations

import pytest

from oomph.planning.estimate import Device
from oomph.planning.gpu_list import find_gpu
from oomph.planning.precision import suits_bfloat16, warnings


def device(name: str) -> Device:
    gpu = find_gpu(name)
    return Device(gpu.name, gpu.memory_bytes, gpu.memory_bytes, capability=gpu.capability)


@pytest.mark.parametrize("name", ["T4", "V100 16GB", "P100 16GB", "GTX 1080 Ti"])
def test_bfloat16_on_gpus_before_ampere_gets_a_warning(name) -> None:
    card = device(name)
    (said,) = warnings(card, ("float32", "mixed_bfloat16"))
    assert said.startswith(f"{card.name} (compute capability {card.capability}) has no fast arithmetic with bfloat16")
    assert said.endswith("mixed_bfloat16 saves memory, and is slow; use mixed_float16.")
    assert not suits_bfloat16(card)


@pytest.mark.parametrize("policies", [("float32",), ("mixed_float16",), ()])
def test_other_policies_get_no_warning(policies) -> None:
    assert warnings(device("T4"), policies) == ()


@pytest.mark.parametrize(
    "known", [None, Device("a GPU with 24 GiB", 1, 1, is_card=False), device("A100 40GB"), device("RTX 4090")]
)
def test_ampere_and_unknown_gpus_get_no_warning(known) -> None:
    assert warnings(known, ("mixed_bfloat16",)) == ()
    assert suits_bfloat16(known)
