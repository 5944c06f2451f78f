"""Faults of a scripted GPU, seen by the sampler through NVML's binding: found soon, named correctly, reported once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

OWN = 4242
MACHINE = f"""
set gpus 2
str * name NVIDIA H200
at 0 * mem_total 143771M
at 0 * mem_used 130000M
at 0 * proc_mem 120G
at 0 * util 97
at 0 * temp 62
at 0 * throttle 0x4
at 0 * sm_clock 1800
at 0 * sm_max 1980
at 0 * t_slowdown 88
at 0 * t_shutdown 93
at 0 * pcie_width 16
proc 0 {OWN}
proc 1 {OWN}
"""
"""Two GPUs that train: TensorFlow's pool is allocated, and the power cap limits the clock."""

Play = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def play(fake_nvml: Path, tmp_path: Path) -> Play:
    """Play the machine with this event; return the findings."""

    def played(script: str, seconds: int = 45) -> list[dict[str, Any]]:
        (tmp_path / "script").write_text(script if "set gpus" in script else MACHINE + script)
        (tmp_path / "clock").write_text("0".ljust(12))
        environ = os.environ | {
            "LD_LIBRARY_PATH": str(fake_nvml),
            "FAKE_NVML_SCRIPT": str(tmp_path / "script"),
            "FAKE_NVML_CLOCK": str(tmp_path / "clock"),
        }
        command = [sys.executable, str(Path(__file__).with_name("play.py")), str(tmp_path / "clock"), str(seconds)]
        done = subprocess.run(
            [*command, str(OWN)], env=environ, check=True, capture_output=True, text=True, timeout=120
        )
        *findings, cost = map(json.loads, done.stdout.splitlines())
        assert cost["microseconds"] > 0
        return findings

    return played


FAULTS = {
    "memory climbs": (
        "at 10 0 mem_used 70000M\nat 30 0 mem_used 143000M lin\nat 0 0 mem_used 70000M",
        "device-oom", "", 29, "of 140.4 GiB is in use",
    ),
    "temperature": ("at 20 0 temp 90", "thermal-throttle", "temperature", 20, "90 °C: this GPU slows down at 88 °C"),
    "near shutdown": ("at 20 0 temp 92", "thermal-throttle", "near shutdown", 20, "shuts down at 93 °C"),
    "heat": ("at 20 0 throttle 0x24\nat 20 0 sm_clock 1170", "thermal-throttle", "heat", 20, "costing 35%"),
    "power brake": ("at 20 0 throttle 0x88\nat 20 0 sm_clock 900", "thermal-throttle", "power brake", 20, "costing 50"),
    "Xid 31": ("at 20 0 xid 31", "illegal-memory-access", "xid 31", 20, "Xid 31 (ROBUST_CHANNEL_FIFO_ERROR_MMU"),
    "Xid 48": ("at 20 0 xid 48", "hardware-fault", "xid 48", 20, "Xid 48 (ROBUST_CHANNEL_GPU_ECC_DBE)"),
    "Xid 79": ("at 20 0 xid 79\nat 20 0 lost 1", "hardware-fault", "lost", 20, "Xid 79 (ROBUST_CHANNEL_GPU_HAS_FALLEN"),
    "lost": ("at 20 0 lost 1", "hardware-fault", "lost", 20, "no longer responds: GPU is lost"),
    "another process": (
        "proc 0 777 20\nat 20 0 mem_used 136000M", "device-oom-other-process", "777", 20, "uses 120.0 GiB"
    ),
    "NVML blocks": ("at 20 0 hang 1", "driver-silent", "", 20, "the driver is not responding: no answer for"),
}  # fmt: skip
"""What happens on GPU 0, the page, the kind, when it starts, and part of the message."""


@pytest.mark.parametrize("name", FAULTS)
def test_scripted_fault_is_detected_once_within_five_seconds(name: str, play: Play) -> None:
    script, fault, kind, since, message = FAULTS[name]
    found = play(script)
    assert [(each["fault"], each["subject"], each["kind"]) for each in found] == [
        (fault, "GPU 0 (NVIDIA H200)", kind)
    ], found
    assert since <= found[0]["second"] <= since + 5
    assert message in found[0]["message"]


def test_uneventful_training_produces_no_findings(play: Play) -> None:
    assert play("", 600) == []


@pytest.mark.slow
def test_healthy_hour_on_eight_gpus_produces_no_findings(play: Play) -> None:
    names = "\n".join(f"proc {gpu} {OWN}" for gpu in range(2, 8))
    script = (
        MACHINE.replace("gpus 2", "gpus 8")
        + names
        + "\nat 0 * ecc_sbe 3\nat 3600 * ecc_sbe 40 lin\nat 3000 * pcie_replay 90"
    )
    assert play(script, 3600) == []
