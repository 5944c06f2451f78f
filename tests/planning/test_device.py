"""The device of a plan: named, given by its memory, or the GPU that NVML shows here."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from oomph.errors import UsageError
from oomph.planning.device import device_of
from oomph.planning.gpu_list import capability_of

sys.path.insert(0, str(Path(__file__).parents[1] / "watch"))
from rig import driver

GIB = 2**30
TWO = """set gpus 2
str 0 name NVIDIA GeForce RTX 4060 Ti
at 0 0 mem_total 16G
str 1 name Tesla T4
at 0 1 mem_total 15G
"""


def asked(wanted: str | None, **environ: str) -> tuple[dict | None, list[str]]:
    said: list[str] = []
    clean = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
    return device_of(wanted, clean | environ, said.append), said


def test_gpu_name_or_memory_size_can_be_given_without_a_gpu():
    device, said = asked("l4")
    assert device == {"name": "L4", "memory": 22.5 * GIB, "capability": "8.9"}
    assert said == ["L4 (22.5 of 24 GiB, the rest is for error correction)"]
    device, said = asked("K80")
    assert said[0].endswith(": one of the two GPUs of the card, which has 24 GB")
    device, said = asked("24GiB")
    assert device == {"name": "a GPU with 24 GiB", "memory": 24 * GIB, "capability": "", "is_card": False}
    assert said == []


def test_auto_is_refused_without_a_gpu_and_no_device_is_assumed(tmp_path):
    assert asked(None, CUDA_VISIBLE_DEVICES="-1") == (None, [])
    with pytest.raises(UsageError, match="finds no NVIDIA GPU here"):
        asked("auto", CUDA_VISIBLE_DEVICES="")


@pytest.mark.rig
@pytest.mark.parametrize(
    ("visible", "name", "gib", "capability", "words"),
    [
        (
            None,
            "NVIDIA GeForce RTX 4060 Ti",
            16,
            "8.9",
            ["the GPUs here differ: planning for the first, NVIDIA GeForce"],
        ),
        ("1", "Tesla T4", 15, "7.5", []),
        ("1,0", "Tesla T4", 15, "7.5", ["the GPUs here differ: planning for the first, Tesla T4"]),
        ("GPU-of-a-uuid", "NVIDIA GeForce RTX 4060 Ti", 16, "8.9", ["the GPUs here differ"]),
    ],
)
def test_auto_means_the_first_gpu_visible_to_the_script(tmp_path, visible, name, gib, capability, words):
    environ = driver(tmp_path, TWO) | ({} if visible is None else {"CUDA_VISIBLE_DEVICES": visible})
    device, said = asked("auto", **environ)
    assert device == {"name": name, "memory": gib * GIB, "capability": capability}
    assert len(said) == len(words)
    assert all(line.startswith(word) for line, word in zip(said, words, strict=True))
    assert asked(None, **environ)[0] == device


@pytest.mark.parametrize(
    ("name", "capability"),
    [("NVIDIA A100-SXM4-80GB", "8.0"), ("NVIDIA A100", "8.0"), ("NVIDIA GeForce RTX 4060 Ti", "8.9"), ("Other", "")],
)
def test_compute_capability_does_not_depend_on_the_memory(name, capability):
    assert capability_of(name) == capability
