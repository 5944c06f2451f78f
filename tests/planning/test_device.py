"""A plan's device: loosely named, given by its memory, or the GPU that NVML reports here."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from oomph.errors import UsageError
from oomph.planning import gpu_list
from oomph.planning.device import counting_environ, device_of, pool_of
from oomph.planning.gpu_costs import limit_of
from oomph.planning.gpu_list import GIB, capability_of, find_gpu, gpus, size_of

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

sys.path.insert(0, str(Path(__file__).parents[1] / "watch"))
from rig import driver

GPU_TABLE = Path(gpu_list.__file__).with_name("gpus.toml")

POOL = {"TF_CPU_ALLOCATOR_USE_BFC": "1", "TF_CPU_BFC_MEM_LIMIT_IN_MB": "48", "CUDA_VISIBLE_DEVICES": "-1"}
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
    assert said[0].endswith(": one of the two GPUs on the card, which has 24 GB")
    device, said = asked("24GiB")
    assert device == {"name": "a GPU with 24 GiB", "memory": 24 * GIB, "capability": "", "is_card": False}
    assert said == []


def test_auto_is_rejected_without_a_gpu_and_no_device_is_assumed(tmp_path):
    assert asked(None, CUDA_VISIBLE_DEVICES="-1") == (None, [])
    with pytest.raises(UsageError, match="found no NVIDIA GPU here"):
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
    [
        ("NVIDIA A100-SXM4-80GB", "8.0"),
        ("NVIDIA A100", "8.0"),
        ("NVIDIA GeForce RTX 4060 Ti", "8.9"),
        ("NVIDIA GH200 144G HBM3e", "9.0"),
        ("Other", ""),
    ],
)
def test_compute_capability_does_not_depend_on_the_memory(name, capability):
    assert capability_of(name) == capability


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
def test_unlimited_pool_or_pool_next_to_a_gpu_is_not_used_as_the_device(change: dict[str, str]) -> None:
    assert pool_of({**POOL, **change}) is None


@pytest.mark.parametrize(
    ("text", "name", "gib"),
    [
        ("4090", "GeForce RTX 4090", 24),
        ("rtx4090", "GeForce RTX 4090", 24),
        ("NVIDIA GeForce RTX 4090", "GeForce RTX 4090", 24),
        ("gtx1080ti", "GeForce GTX 1080 Ti", 11),
        ("3080", "GeForce RTX 3080", 10),
        ("3080 12GB", "GeForce RTX 3080 12GB", 12),
        ("4060ti 16gb", "GeForce RTX 4060 Ti 16GB", 16),
        ("NVIDIA GeForce RTX 4070 Laptop GPU", "GeForce RTX 4070 Laptop GPU", 8),
        ("A100-40GB", "A100 40GB", 40),
        ("NVIDIA A100-SXM4-80GB", "A100 80GB", 80),
        ("NVIDIA A100 80GB PCIe", "A100 80GB", 80),
        ("Tesla V100-SXM2-32GB", "Tesla V100 32GB", 32),
        ("NVIDIA H100 80GB HBM3", "H100 SXM", 80),
        ("h100", "H100 PCIe", 80),
        ("H100 NVL", "H100 NVL", 94),
        ("T4", "Tesla T4", 16),
        ("Colab T4", "Tesla T4", 16),
        ("Kaggle T4 x2", "Tesla T4", 16),
        ("Kaggle P100", "Tesla P100 16GB", 16),
        ("RTX 6000", "Quadro RTX 6000", 24),
        ("NVIDIA RTX 6000 Ada Generation", "RTX 6000 Ada Generation", 48),
        ("rtx a6000", "RTX A6000", 48),
        ("titan rtx", "TITAN RTX", 24),
        ("NVIDIA GH200 480GB", "GH200 96GB", 96),
        ("NVIDIA GH200 144G HBM3e", "GH200 144GB", 144),
    ],
)
def test_loosely_written_gpu_name_is_recognised(text, name, gib):
    found = find_gpu(text)
    assert (found.name, found.gib) == (name, gib)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("4099", r"unknown GPU '4099' \(did you mean GeForce RTX 4090 or "),
        ("banana", r"unknown GPU 'banana': specify a known GPU, or an amount of memory such as 24GiB"),
        ("", "unknown GPU ''"),
        ("A100", "A100 may be A100 40GB or A100 80GB: which one"),
        ("v100", "Tesla V100 16GB or Tesla V100 32GB"),
        ("RTX 3050 Laptop GPU", "Laptop GPU 4GB or GeForce RTX 3050 Laptop GPU 6GB: which one"),
        ("RTX 4090 48GB", "GeForce RTX 4090 has 24 GiB, not 48"),
    ],
)
def test_unknown_or_ambiguous_gpu_name_is_rejected_with_the_reason(text, said):
    with pytest.raises(UsageError, match=said):
        find_gpu(text)


def test_each_gpu_states_the_sources_of_its_figures():
    tables = tomllib.loads(GPU_TABLE.read_text())
    assert all(1 <= len(row["sources"]) <= 2 for row in tables["gpus"].values())
    assert {key for row in tables["gpus"].values() for key in row["sources"]} == set(tables["sources"])
    assert [gpu.sources for gpu in gpus() if gpu.name == "H100 NVL"] == [(tables["sources"]["mig"],)]


def test_each_gpu_is_found_by_every_name():
    assert len(gpus()) > 100
    assert len({gpu.name for gpu in gpus()}) == len(gpus())
    for gpu in gpus():
        assert {find_gpu(name).gib for name in (gpu.name, *gpu.also, f"NVIDIA {gpu.name}")} == {gpu.gib}
        assert re.fullmatch(r"\d{1,2}\.\d", gpu.capability), gpu.name
        assert 1 <= gpu.gib <= 200


def test_error_correction_takes_a_sixteenth_of_the_memory_on_some_gpus():
    assert find_gpu("T4").memory_bytes == 15 * GIB
    assert find_gpu("L4").memory_bytes == 22.5 * GIB
    assert find_gpu("A100 40GB").memory_bytes == 40 * GIB
    assert find_gpu("T4").shown == "Tesla T4 (15 of 16 GiB, the rest is for error correction)"


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("24GiB", 24 * GIB), ("24GB", 24 * GIB), ("16g", 16 * GIB), (" 1.5 GiB ", 1.5 * GIB), ("512MiB", GIB // 2),
        ("24", None), ("0g", None), ("-1g", None), ("24 GiB more", None), ("nan", None), ("", None),
    ],
)  # fmt: skip
def test_size_is_parsed_from_a_number_with_a_unit(text, size):
    assert size_of(text) == size


@pytest.mark.parametrize(
    ("free", "limit", "gib"),
    [(20 * GIB, None, 18), (20 * GIB, 10 * GIB, 9), (GIB // 2, None, 1), (4 * GIB, 8 * GIB, 3.6)],
)
def test_pool_limit_stays_below_the_machines_memory(monkeypatch, free, limit, gib) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=free, total=24 * GIB))
    monkeypatch.setattr("oomph.planning.device.limit_bytes", lambda: limit)
    assert counting_environ()["TF_CPU_BFC_MEM_LIMIT_IN_MB"] == str(int(gib * 1024))
