"""Each attempt records the host and the GPUs it runs on, so that faults of many runs can be counted by machine."""

from __future__ import annotations

import platform

from oomph.doctor.snapshot import CudaDevice, Driver, NvmlAnswers, NvmlDevice, Snapshot
from oomph.journal.events import AttemptStarted
from oomph.journal.journal import facts, read_journal
from oomph.run.policy.ladder import Change
from oomph.run.supervisor.chronicle import Chronicle
from oomph.run.supervisor.settings import MachineAtStart, gpus_of

NVML = NvmlAnswers(
    devices=(
        NvmlDevice(0, "NVIDIA A10", "GPU-a", "00000000:3B:00.0"),
        NvmlDevice(1, "NVIDIA A10", "GPU-b", "00000000:AF:00.0"),
        NvmlDevice(2, "NVIDIA A10", "GPU-c", "00000000:D8:00.0"),
    )
)


def cuda(*buses: str) -> Driver:
    return Driver(devices=tuple(CudaDevice(index, pci=bus) for index, bus in enumerate(buses)))


def test_attempt_records_its_host_and_the_gpus_left_to_it(tmp_path):
    gpus = gpus_of(Snapshot(nvml=NVML))
    chronicle = Chronicle(tmp_path, 0)
    chronicle.begin_attempt(["train.py"], "python", MachineAtStart(gpus=gpus))
    chronicle.begin_attempt(
        ["train.py"], "python", MachineAtStart(gpus=gpus), changes=[Change("exclude-gpu", "GPU-b"), Change("no-xla")]
    )
    first, second = facts(read_journal(tmp_path), AttemptStarted)
    assert first.host == platform.node()
    assert first.gpus[1] == {"index": 1, "uuid": "GPU-b", "name": "NVIDIA A10", "bus": "00000000:AF:00.0"}
    assert [gpu["uuid"] for gpu in first.gpus] == ["GPU-a", "GPU-b", "GPU-c"]
    assert [gpu["uuid"] for gpu in second.gpus] == ["GPU-a", "GPU-c"]


def test_gpus_are_those_that_cuda_shows_the_script_in_its_order():
    seen = gpus_of(Snapshot(nvml=NVML, driver=cuda("0000:d8:00.0", "0000:3b:00.0", "0000:3b:00.0")))
    assert [(gpu["index"], gpu["uuid"]) for gpu in seen] == [(2, "GPU-c"), (0, "GPU-a")]


def test_hidden_and_nameless_gpus_are_not_recorded():
    assert gpus_of(Snapshot(nvml=NVML, environment={"CUDA_VISIBLE_DEVICES": ""})) == ()
    assert gpus_of(Snapshot(nvml=NvmlAnswers(devices=(NvmlDevice(0),)))) == ()
