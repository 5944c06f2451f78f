"""GPUs through NVML: which values are read and how often, and which are refused, lost, hidden or forbidden."""

from __future__ import annotations

import sys

import pynvml
import pytest

from oomph.gpu.nvml import Nvml
from oomph.gpu.nvml_queries import QUERIES
from oomph.gpu.reading import DriverEvent, Holder
from oomph.monitor.metrics import of_scope

pytestmark = pytest.mark.rig

GPU = {metric.key: metric for metric in of_scope("gpu")}
SLOW = {key for key, metric in GPU.items() if metric.every_seconds > 1}
FULL = """
set gpus 1
at 0 * mem_total 80G
at 0 * mem_used 10G
at 0 * util 93
at 0 * temp 61
at 0 * mem_temp 70
at 0 * power 412.5
at 0 * power_limit 700
at 0 * sm_clock 1980
at 0 * throttle 0x24
at 0 * ecc_dbe 2
at 0 * ecc_sbe 5
at 0 * remap_unc 1
at 0 * remap_pending 1
at 0 * pcie_replay 7
at 0 * pcie_width 8
at 0 * fan 30
at 0 * energy 5000
at 0 * recovery 1
proc 0 4242
at 0 * proc_mem 9G
"""


def test_queries_match_the_metrics_and_their_frequency():
    queried = [key for query in QUERIES for key in query.keys]
    assert sorted(queried) == sorted(GPU)
    assert {key for query in QUERIES if query.slow for key in query.keys} == SLOW


def test_nvml_values_are_converted_to_their_units(machine):
    machine(FULL)
    (reading,) = Nvml().read(0)
    assert reading.values == pytest.approx(
        {
            "memory_used_bytes": 10 << 30,
            "memory_total_bytes": 80 << 30,
            "memory_reserved_bytes": 300 << 20,
            "utilization_ratio": 0.93,
            "memory_utilization_ratio": 0,
            "temperature_celsius": 61,
            "memory_temperature_celsius": 70,
            "temperature_slowdown_celsius": 89,
            "temperature_shutdown_celsius": 92,
            "power_watts": 412.5,
            "power_limit_watts": 700,
            "energy_joules_total": 5,
            "sm_clock_hertz": 1.98e9,
            "memory_clock_hertz": 2.619e9,
            "sm_clock_max_hertz": 1.98e9,
            "clocks_event_reasons": 0x24,
            "ecc_uncorrected_total": 2,
            "ecc_corrected_total": 5,
            "remapped_rows_uncorrected": 1,
            "row_remap_pending": 1,
            "row_remap_failure": 0,
            "pcie_replays_total": 7,
            "pcie_width": 8,
            "pcie_width_max": 16,
            "pcie_generation": 5,
            "fan_ratio": 0.3,
            "recovery_action": 1,
        }
    )
    assert (reading.index, reading.name, reading.problem) == (0, "NVIDIA Fake 4000", "")
    assert reading.bus == "00000000:01:00.0"
    assert reading.processes == (Holder(4242, 9 << 30),)


def test_slow_values_are_read_every_ten_seconds_from_one_gpu_at_a_time(machine):
    machine("set gpus 4")
    nvml = Nvml()
    slow = {
        second: [reading.index for reading in nvml.read(second) if "fan_ratio" in reading.values]
        for second in range(31)
    }
    assert slow.pop(0) == [0, 1, 2, 3]
    assert sorted(index for asked in slow.values() for index in asked) == sorted([0, 1, 2, 3] * 3)
    assert max(map(len, slow.values())) == 1


def test_refused_query_is_not_repeated(machine):
    rig = machine("set gpus 2\nat 0 0 err.power 3\nat 0 1 err.power 999\nat 5 * err.power 0")
    nvml = Nvml()
    assert ["power_watts" in reading.values for reading in nvml.read(0)] == [False, False]
    rig.at(6)
    assert ["power_watts" in reading.values for reading in nvml.read(1)] == [False, True]  # 999 may have been chance


def test_temporarily_failing_query_does_not_lose_other_values(machine):
    rig = machine("set gpus 1\nat 5 0 err.power 999\nat 9 0 err.power 0\nat 12 0 err.power 3")
    nvml = Nvml()

    def keys(second):
        rig.at(second)
        (reading,) = nvml.read(second)
        return {key for key in reading.values if key not in SLOW}

    whole = keys(0)
    assert keys(1) == whole
    assert keys(6) == keys(7) == whole - {"power_watts"}
    assert keys(10) == keys(11) == whole
    assert keys(13) == keys(14) == whole - {"power_watts"}


@pytest.mark.parametrize(
    ("hidden", "key", "value"),
    [
        ("nvmlDeviceGetMemoryInfo_v2", "memory_used_bytes", (10 << 30) + (300 << 20)),
        ("nvmlDeviceGetCurrentClocksEventReasons", "clocks_event_reasons", 0x24),
        ("nvmlDeviceGetMarginTemperature", "temperature_slowdown_celsius", 89),
    ],
)
def test_older_driver_is_queried_through_its_own_functions(machine, hidden, key, value):
    machine(FULL).hide(hidden)
    (reading,) = Nvml().read(0)
    assert reading.values[key] == value
    assert ("memory_reserved_bytes" in reading.values) == (key != "memory_used_bytes")


def test_processes_are_also_found_with_an_older_driver_function(machine):
    machine(FULL).hide("nvmlDeviceGetComputeRunningProcesses_v3")
    assert Nvml().read(0)[0].processes == (Holder(4242, 9 << 30),)


def test_memory_temperature_is_omitted_without_a_sensor(machine):
    machine("at 0 0 mem_temp 0")
    assert "memory_temperature_celsius" not in Nvml().read(0)[0].values


def test_processes_are_queried_soon_after_memory_changes(machine):
    rig = machine("at 0 0 mem_used 1G\nat 4 0 mem_used 3G\nproc 0 7")
    nvml = Nvml()
    asked = [second for second in range(26) if nvml.read(rig.at(second))[0].processes is not None]
    assert asked == [0, 4, 14, 24]


def test_processes_are_queried_often_while_memory_changes(machine):
    rig = machine("at 0 0 mem_used 1G\nat 60 0 mem_used 61G lin\nproc 0 7")
    nvml = Nvml()
    assert sum(nvml.read(rig.at(second))[0].processes is not None for second in range(20)) == 10


def test_driver_events_are_assigned_to_their_gpu_and_reported_once(machine):
    rig = machine("set gpus 3\nat 2 1 xid 31\nat 2.5 1 xid 48\nat 2.5 2 xid 13")
    nvml = Nvml()
    assert not any(reading.events for reading in nvml.read(0))
    rig.at(3)
    assert [reading.events for reading in nvml.read(3)] == [
        (),
        (DriverEvent("xid", 31), DriverEvent("xid", 48)),
        (DriverEvent("xid", 13),),
    ]
    assert not any(reading.events for reading in nvml.read(4))


def test_gpu_without_event_support_still_has_values(machine):
    machine("").hide("nvmlEventSetCreate")
    assert Nvml().read(0)[0].values


def test_lost_gpu_stays_listed_and_is_reread_after_a_reset(machine):
    rig = machine("set gpus 2\nat 3 1 lost 1\nat 100 1 lost 0")
    nvml = Nvml()
    nvml.read(rig.at(0))
    healthy, lost = nvml.read(rig.at(3))
    assert healthy.values
    assert (lost.problem, lost.values, lost.events) == ("GPU is lost", {}, (DriverEvent("lost"),))
    for second in (4, 50, 70, 99):
        _, still = nvml.read(rig.at(second))
        assert (still.uuid, still.problem, still.events) == (lost.uuid, "GPU is lost", ())
    back = nvml.read(rig.at(140))[1]
    assert (back.uuid, back.problem) == (lost.uuid, "")
    assert back.values
    assert nvml.read(rig.at(141))[1].values


def test_gpu_that_refuses_every_query_is_reported_with_the_reason(machine):
    fields = ["mem_used", "util", "temp", "mem_temp", "power", "sm_clock", "mem_clock", "throttle"]
    rig = machine("\n".join(f"at 5 0 err.{field} 999" for field in fields))
    nvml = Nvml()
    assert not nvml.read(rig.at(0))[0].problem
    reading = nvml.read(rig.at(6))[0]
    assert (reading.values, reading.problem) == ({}, "Unknown Error")


def test_all_sixteen_gpus_are_read(machine):
    machine("set gpus 16")
    readings = Nvml().read(0)
    assert [reading.index for reading in readings] == list(range(16))
    assert len({reading.uuid for reading in readings}) == 16


def test_gpu_in_a_container_is_identified_by_uuid(machine):
    machine("set gpus 1\nstr 0 uuid GPU-5e5e5e5e")
    (reading,) = Nvml().read(0)
    assert (reading.index, reading.uuid) == (0, "GPU-5e5e5e5e")


def test_gpus_that_the_container_may_not_access_are_omitted(machine, monkeypatch):
    machine("set gpus 3")
    found = pynvml.nvmlDeviceGetHandleByIndex

    def allowed(index: int):
        if index == 0:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NO_PERMISSION)
        return found(index)

    monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByIndex", allowed)
    nvml = Nvml()
    assert [reading.index for reading in nvml.read(0)] == [1, 2]
    assert nvml.problem == ""


def test_gpu_lost_before_the_first_query_is_listed(machine, monkeypatch):
    machine("set gpus 2")
    found = pynvml.nvmlDeviceGetHandleByIndex

    def some(index: int):
        if index == 1:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)
        return found(index)

    monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByIndex", some)
    assert [(reading.index, reading.problem) for reading in Nvml().read(0)] == [(0, ""), (1, "GPU is lost")]


def test_all_gpus_lost_before_the_first_query_are_listed_until_they_return(machine, monkeypatch):
    machine("set gpus 3")
    found, lost = pynvml.nvmlDeviceGetHandleByIndex, {1, 2}

    def some(index: int):
        if index in lost:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)
        return found(index)

    monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByIndex", some)
    nvml = Nvml()
    assert [(reading.index, reading.problem) for reading in nvml.read(0)] == [
        (0, ""),
        (1, "GPU is lost"),
        (2, "GPU is lost"),
    ]
    lost.clear()
    assert [(reading.index, reading.problem) for reading in nvml.read(60)] == [(0, ""), (1, ""), (2, "")]


def test_refused_gpu_count_is_reported_and_retried(machine, monkeypatch):
    machine("")
    count = pynvml.nvmlDeviceGetCount

    def refuse() -> int:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NO_PERMISSION)

    monkeypatch.setattr(pynvml, "nvmlDeviceGetCount", refuse)
    nvml = Nvml()
    for second in (0, 1):
        assert nvml.read(second) == []
        assert nvml.problem == "this user is not allowed to query the NVIDIA driver"
    monkeypatch.setattr(pynvml, "nvmlDeviceGetCount", count)
    assert nvml.read(60)
    assert nvml.problem == ""


def test_unresponsive_mig_instance_does_not_affect_its_gpu(machine, monkeypatch):
    machine("set gpus 1")
    monkeypatch.setenv("FAKE_MIG", "1")
    monkeypatch.setattr(pynvml, "nvmlDeviceGetMaxMigDeviceCount", lambda handle: 1)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetMigDeviceHandleByIndex", lambda handle, number: None)
    assert [(reading.index, reading.problem) for reading in Nvml().read(0)] == [(0, "")]


def test_mig_instances_are_listed_with_their_memory(machine, monkeypatch):
    machine("set gpus 2\nat 0 1 mem_used 3G\nstr 1 uuid MIG-1\nat 0 1 err.util 3")
    monkeypatch.setenv("FAKE_MIG", "1")
    pynvml.nvmlInit()
    instance = pynvml.nvmlDeviceGetHandleByIndex(1)

    def by_number(handle: object, number: int):
        if number != 1:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return instance

    monkeypatch.setattr(pynvml, "nvmlDeviceGetCount", lambda: 1)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetMaxMigDeviceCount", lambda handle: 7)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetMigDeviceHandleByIndex", by_number)
    whole, part = Nvml().read(0)
    assert (whole.index, part.index, part.uuid) == (0, 0, "MIG-1")
    assert part.values["memory_used_bytes"] == 3 << 30
    assert "utilization_ratio" not in part.values


def test_mig_gpu_without_instances_is_listed_as_one_device(machine, monkeypatch):
    machine("set gpus 1")
    monkeypatch.setenv("FAKE_MIG", "1")
    assert len(Nvml().read(0)) == 1


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        (4, "this user is not allowed to query the NVIDIA driver"),
        (9, "the NVIDIA driver is not loaded"),
        (18, "the NVIDIA driver was updated, and the old one is still loaded until the machine restarts"),
        (999, "NVML failed to start: Unknown Error"),
    ],
)
def test_driver_that_fails_to_start_is_reported_in_plain_words(machine, code, problem):
    machine(f"set init_error {code}")
    nvml = Nvml()
    assert nvml.read(0) == []
    assert nvml.problem == problem
    assert not nvml.is_missing


def test_driver_that_fails_to_start_is_retried_every_minute(machine, monkeypatch):
    machine("")
    tried = []

    def start() -> None:
        tried.append(now)
        if now < 100:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_DRIVER_NOT_LOADED)

    monkeypatch.setattr(pynvml, "nvmlInit", start)
    nvml = Nvml()
    for now in range(200):
        found = bool(nvml.read(now))
        assert found == (now >= 120)
    assert tried == [0, 60, 120]


def test_missing_gpu_is_reported(machine):
    machine("set gpus 0")
    nvml = Nvml()
    assert nvml.read(0) == []
    assert nvml.problem == "the NVIDIA driver sees no GPU"


def test_missing_driver_is_reported(monkeypatch):
    def missing() -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", missing)
    nvml = Nvml()
    assert nvml.read(0) == []
    assert nvml.problem == "there is no NVIDIA driver: libnvidia-ml.so.1 cannot be loaded"
    assert nvml.is_missing


def test_missing_nvidia_ml_py_is_reported(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    nvml = Nvml()
    assert nvml.read(0) == []
    assert nvml.problem == "nvidia-ml-py is not installed alongside oomph"
    assert nvml.is_missing


def test_queried_gpu_is_known_only_during_the_query(machine, monkeypatch):
    machine("set gpus 2")
    nvml = Nvml()
    nvml.read(0)
    seen = []

    class Slow:
        gone, index = "", 1

        def read(self, now: float):
            seen.append(nvml.asking)
            raise RuntimeError("enough")

    nvml._devices[1] = Slow()  # type: ignore[call-overload]
    with pytest.raises(RuntimeError):
        nvml.read(1)
    assert (seen, nvml.asking) == (["GPU 1"], "")
