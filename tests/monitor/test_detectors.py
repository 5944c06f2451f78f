"""The GPU and host detectors on handmade samples: what they find, and what they ignore."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from days import GIB, START

from oomph.explain.catalogue.catalogue import find, load
from oomph.monitor.detection import Detection
from oomph.monitor.detector import Detector
from oomph.monitor.detectors import DETECTORS
from oomph.monitor.docs import document
from oomph.monitor.finding import Finding, FindingChanges, from_documents, in_words, to_lines
from oomph.monitor.fragmentation import of_report
from oomph.monitor.live.findings import Alerts
from oomph.monitor.sample import GpuEvent, GpuProcess, GpuSample, Sample

OWN = GpuProcess(7, int(60 * GIB), "python", own=True)
BUSY = {
    "memory_used_bytes": 76 * GIB,
    "memory_total_bytes": 80 * GIB,
    "utilization_ratio": 0.97,
    "temperature_celsius": 65.0,
    "sm_clock_hertz": 1.8e9,
    "clocks_event_reasons": 4.0,
}
LOGS = Path(__file__).resolve().parents[1] / "logs"


def gpu(index: int = 0, processes: tuple[GpuProcess, ...] | None = (OWN,), **values: float) -> GpuSample:
    """Return a GPU that trains, except for some values."""
    return GpuSample(index, f"GPU-{index}", "H100", BUSY | values, processes)


def found(samples: Iterable[Sample]) -> list[Finding]:
    """Return the findings for some samples."""
    detection = Detection()
    told = [finding for sample in samples for finding in detection.take(sample).told]
    assert {finding.fault for finding in told} <= {fault for detector in DETECTORS for fault in detector.faults}
    return told


def every_second(make: Callable[[int], Any], seconds: int = 120) -> list[Sample]:
    """Return a sample for each second: `make` returns the GPU, or the parts of the sample as a dict."""
    made = ((second, make(second)) for second in range(seconds))
    return [
        Sample(START + second, **part) if isinstance(part, dict) else Sample(START + second, (part,))
        for second, part in made
    ]


def kinds(findings: Iterable[Finding]) -> list[tuple[str, str]]:
    return [(finding.fault, finding.kind) for finding in findings]


def training(**values: float) -> dict[str, float]:
    return {
        "epochs": 10.0,
        "steps_total": 900.0,
        "step_seconds_total": 90.0,
        "allocator_limit_bytes": 74 * GIB,
    } | values


def test_suddenly_full_memory_pool_is_not_reported() -> None:
    assert found(every_second(lambda second: gpu(memory_used_bytes=(0.6 if second < 20 else 79.5) * GIB))) == []


def test_doubling_memory_pool_is_not_reported() -> None:
    def growing(second: int) -> GpuSample:
        return gpu(memory_used_bytes=min(0.5 * 2 ** min(second // 3, 20), 78.5) * GIB)

    assert found(every_second(growing)) == []


def test_memory_rising_towards_the_limit_is_reported() -> None:
    [finding] = found(every_second(lambda second: gpu(memory_used_bytes=(60 + second / 6) * GIB)))
    assert (finding.fault, finding.subject) == ("device-oom", "GPU 0 (H100)")
    assert finding.message == "76.0 GiB of 80.0 GiB is in use (95%), 16.0 GiB more than 96 s ago"


def test_tensorflow_allocator_statistics_override_the_driver() -> None:
    def at(peak: Callable[[int], float]) -> list[Finding]:
        return found(
            every_second(
                lambda second: {
                    "gpus": (gpu(memory_used_bytes=(60 + second / 30) * GIB),),
                    "training": training(allocator_in_use_bytes=20 * GIB, allocator_peak_bytes=peak(second) * GIB),
                },
                600,
            )
        )

    assert at(lambda second: 40) == []  # NVML's "used" value rises, but it is TensorFlow's pool
    assert at(lambda second: 73.5) == []  # full, and remains so
    assert at(lambda second: 21 if second < 100 else 73.5) == []  # the first step
    [finding] = at(lambda second: 60 + second / 50)
    assert (finding.fault, finding.subject) == ("device-oom", "TensorFlow's memory")


def _arrival(held: float | None, at: int = 50, own_at: int = 0) -> list[Finding]:
    other = GpuProcess(99, None if held is None else int(held * GIB), "jupyter")

    def machine(second: int) -> GpuSample:
        there = tuple(each for each, since in ((OWN, own_at), (other, at)) if second >= since)
        used = 60.0 + ((held or 9.0) if second >= at else 0)
        return gpu(0, there if second % 10 == 0 else None, memory_used_bytes=used * GIB)

    return found(every_second(machine))


def test_newly_arrived_process_is_reported_once() -> None:
    [finding] = _arrival(9)
    assert (finding.fault, finding.subject, finding.kind) == ("device-oom-other-process", "GPU 0 (H100)", "99")
    assert finding.message == (
        "process 99 (jupyter), which does not belong to the script, now uses 9.0 GiB; 11.0 GiB is left"
    )


def test_other_process_of_unknown_size_is_reported() -> None:
    assert kinds(_arrival(None)) == [("device-oom-other-process", "99")]


@pytest.mark.parametrize(("held", "at", "own_at"), [(0.6, 50, 0), (9, 0, 0), (9, 0, 30), (9, 50, 200)])
def test_idle_earlier_or_unrelated_processes_are_not_reported(held: float, at: int, own_at: int) -> None:
    """An idle notebook, a process as old as the script or older, and a GPU that the script does not use."""
    assert _arrival(held, at, own_at) == []


def test_host_memory_running_out_is_reported() -> None:
    def machine(second: int) -> dict[str, Any]:
        host = {"memory_used_bytes": (90 + second / 12) * GIB, "memory_total_bytes": 100 * GIB}
        return {"host": host, "process": {"resident_bytes": 50 * GIB}}

    finding, worse = found(every_second(machine))
    assert (finding.fault, finding.subject, finding.severity) == ("host-oom", "host memory", "warning")
    assert (worse.subject, worse.severity) == ("host memory", "critical")
    assert finding.message.endswith(
        "of 100.0 GiB is in use (95%), 5.0 GiB more than 60 s ago; the script's processes hold 50.0 GiB"
    )


def test_constantly_full_host_memory_is_not_reported() -> None:
    assert found(every_second(lambda _: {"host": {"memory_used_bytes": 97.0, "memory_total_bytes": 100.0}})) == []


def test_temperature_is_judged_by_the_gpu_limits() -> None:
    def at(celsius: float, **limits: float) -> list[tuple[str, str]]:
        return kinds(
            found(every_second(lambda second: gpu(temperature_celsius=celsius if second > 9 else 60, **limits)))
        )

    assert at(95) == []  # it does not report a limit
    assert at(85, temperature_slowdown_celsius=89.0) == []
    assert at(89, temperature_slowdown_celsius=89.0) == [("thermal-throttle", "temperature")]
    limits = {"temperature_slowdown_celsius": 89.0, "temperature_shutdown_celsius": 94.0}
    assert at(93, **limits) == [("thermal-throttle", "near shutdown")]


def test_brief_high_temperature_is_not_reported() -> None:
    def spike(second: int) -> GpuSample:
        return gpu(temperature_celsius=90.0 if second in (50, 51) else 70.0, temperature_slowdown_celsius=89.0)

    assert found(every_second(spike)) == []


@pytest.mark.parametrize(
    ("bits", "kind"), [(0x4, ""), (0x20, "heat"), (0x48, "heat"), (0x88, "power brake"), (0x8, "slowdown"), (0x1, "")]
)
def test_only_some_clock_reasons_are_reported_as_throttling(bits: int, kind: str) -> None:
    def slowed(second: int) -> GpuSample:
        return gpu(clocks_event_reasons=bits, sm_clock_hertz=0.9e9) if second >= 60 else gpu()

    assert kinds(found(every_second(slowed))) == ([("thermal-throttle", kind)] if kind else [])


def test_throttling_finding_states_how_much_of_the_clock_is_lost() -> None:
    def slowed(second: int) -> GpuSample:
        return gpu(clocks_event_reasons=0x20, sm_clock_hertz=1.2e9) if second >= 60 else gpu()

    [finding] = found(every_second(slowed))
    assert finding.message == "slowed down by heat for 5 of the last 60 s, costing 33% of its clock speed"
    assert finding.severity == "warning"


def test_throttling_with_little_clock_loss_is_a_notice() -> None:
    [finding] = found(
        every_second(lambda second: gpu(clocks_event_reasons=0x20 if second > 60 else 4, sm_clock_hertz=1.75e9))
    )
    assert finding.severity == "notice"


def test_clock_change_or_idle_gpu_is_not_reported_as_throttling() -> None:
    assert found(every_second(lambda second: gpu(clocks_event_reasons=0x8 if second % 20 == 0 else 4))) == []
    assert found(every_second(lambda second: gpu(clocks_event_reasons=0x8, utilization_ratio=0.0))) == []


def test_only_new_uncorrected_errors_are_reported() -> None:
    def errors(before: float, after: float) -> list[tuple[str, str]]:
        return kinds(found(every_second(lambda second: gpu(ecc_uncorrected_total=before if second < 60 else after))))

    assert errors(3, 3) == errors(3, 0) == []
    assert errors(3, 4) == errors(0, 1) == [("hardware-fault", "memory error")]


@pytest.mark.parametrize(
    ("values", "kind", "severity"),
    [
        ({"row_remap_pending": 1.0}, "row remapping pending", "notice"),
        ({"row_remap_failure": 1.0, "row_remap_pending": 1.0}, "row remapping failed", "critical"),
        ({"recovery_action": 1.0}, "advice 1", "critical"),
        ({"recovery_action": 99.0}, "advice 99", "critical"),
    ],
)
def test_bad_hardware_states_are_reported_with_their_severity(
    values: dict[str, float], kind: str, severity: str
) -> None:
    [finding] = found(every_second(lambda second: gpu(**values) if second % 10 == 5 else gpu()))
    assert (finding.fault, finding.kind, finding.severity) == ("hardware-fault", kind, severity)


def test_steady_pcie_replays_but_not_a_single_burst_are_reported() -> None:
    def replays(at: Callable[[int], float]) -> list[tuple[str, str]]:
        return kinds(
            found(every_second(lambda second: gpu(pcie_replays_total=at(second)) if second % 10 == 0 else gpu(), 300))
        )

    assert replays(lambda second: 1e6 + second / 10) == []
    assert replays(lambda second: 0 if second < 150 else 500) == []  # one burst
    assert replays(lambda second: second * 2) == [("hardware-fault", "PCIe replays")]


def test_narrow_pcie_link_is_reported_only_under_load() -> None:
    def narrow(use: float, width: float) -> list[tuple[str, str]]:
        slow = {"pcie_width": width, "pcie_width_max": 16.0}
        return kinds(
            found(every_second(lambda second: gpu(utilization_ratio=use, **(slow if second % 10 == 0 else {})), 300))
        )

    assert narrow(0.02, 8.0) == narrow(0.97, 16.0) == []
    assert narrow(0.97, 8.0) == [("hardware-fault", "PCIe width")]


def _event(event: GpuEvent) -> list[Finding]:
    return found(
        every_second(lambda second: GpuSample(0, "GPU-0", "H100", BUSY, None, (event,) if second == 50 else ()))
    )


@pytest.mark.parametrize(
    ("code", "page", "severity", "action"),
    [
        (13, "illegal-memory-access", "critical", "restart the program"),
        (31, "illegal-memory-access", "critical", "restart the program"),
        (43, "hardware-fault", "notice", "nothing; make a note of it"),
        (45, "hardware-fault", "notice", "follow NVIDIA's procedure for it"),
        (48, "hardware-fault", "critical", "follow NVIDIA's procedure for it"),
        (63, "hardware-fault", "notice", "nothing; make a note of it"),
        (79, "hardware-fault", "critical", "restart the machine"),
        (95, "hardware-fault", "critical", "reset the GPU"),
        (119, "hardware-fault", "critical", "reset the GPU"),
    ],
)
def test_xid_finding_has_its_page_severity_and_action(code: int, page: str, severity: str, action: str) -> None:
    [finding] = _event(GpuEvent("xid", code))
    assert (finding.fault, finding.severity) == (page, severity)
    assert finding.remedy == f"NVIDIA's catalogue says: {action}"


def test_unknown_xid_and_other_driver_events_are_reported() -> None:
    [finding] = _event(GpuEvent("xid", 99_999))
    assert (finding.message, finding.severity, finding.remedy) == ("the driver reports Xid 99999", "warning", "")
    assert kinds(_event(GpuEvent("ecc-double-bit"))) == [("hardware-fault", "memory error")]
    assert kinds(_event(GpuEvent("unavailable"))) == [("hardware-fault", "unavailable")]
    assert _event(GpuEvent("something new")) == []


def test_each_xid_of_one_gpu_is_reported() -> None:
    def machine(second: int) -> GpuSample:
        codes = {50: 48, 51: 48, 55: 63, 60: 79}
        events = (GpuEvent("xid", codes[second]),) if second in codes else ()
        is_gone = second > 60
        return GpuSample(0, "GPU-0", "H100", {} if is_gone else BUSY, None, events, "GPU is lost" if is_gone else "")

    assert [kind for _, kind in kinds(found(every_second(machine, 1500)))] == ["xid 48", "xid 63", "lost"]


def test_driver_that_never_answered_is_not_reported() -> None:
    assert found(every_second(lambda _: {"problems": {"nvml": "the NVIDIA driver is not loaded"}})) == []


def test_driver_that_stops_answering_is_reported() -> None:
    def machine(second: int) -> dict[str, Any]:
        if second < 50:
            return {"gpus": (gpu(),)}
        return {"problems": {"nvml": "NVML failed to start: Unknown Error"}}

    [finding] = found(every_second(machine))
    assert (finding.fault, finding.subject) == ("driver-silent", "NVIDIA driver")


def _standing(cores: float = 0.01, use: float = 0.0, **values: float) -> list[Finding]:
    def machine(second: int) -> dict[str, Any]:
        return {
            "gpus": (gpu(utilization_ratio=use if second > 60 else 0.97),),
            "process": {"cpu_cores": cores},
            "training": training(steps_total=float(min(second, 60)), **values),
        }

    return found(every_second(machine, 600))


def test_training_without_progress_is_reported_as_a_hang() -> None:
    [finding] = _standing()
    assert (finding.fault, finding.subject, finding.severity) == ("hang", "training", "notice")


def _rising() -> list[Finding]:
    return found(every_second(lambda second: gpu(memory_used_bytes=(60 + second / 6) * GIB)))


@pytest.mark.parametrize("make", [_standing, _rising])
def test_oomph_run_is_suggested_only_if_it_is_not_in_use(make: Callable[[], list[Finding]]) -> None:
    [finding] = make()
    assert "oomph run" not in in_words(finding)
    [read] = from_documents(map(json.loads, to_lines(FindingChanges((finding,))))).told  # as the sampler passes it on
    for prints, under_run in ((True, False), (True, True), (False, True)):
        said: list[str] = []
        alerted: list[Finding] = []
        Alerts(said.append, prints, alerted.append, None, under_run).take(FindingChanges((read,)))
        assert len(said) == prints
        assert ["oomph run" in text for text in (alerted[0].remedy, *said)] == [not under_run] * (1 + prints)


def test_tracing_validation_and_slow_steps_are_not_reported_as_a_hang() -> None:
    assert _standing(cores=1.0) == []  # tracing, compiling, reading
    assert _standing(use=0.5) == []  # validation
    assert _standing(step_seconds_total=1800.0) == []  # its steps take half a minute each

    def over(second: int) -> dict[str, Any]:  # a notebook after its fit
        values = training() if second < 60 else {"steps_total": 900.0}
        return {"gpus": (gpu(utilization_ratio=0.0),), "process": {"cpu_cores": 0.0}, "training": values}

    assert found(every_second(over, 600)) == []


def _paces(*parts: dict[str, float], own: bool = True) -> list[Finding]:
    processes = (OWN,) if own else ()

    def machine(second: int) -> dict[str, Any]:
        rows = (gpu(index, processes if second % 10 == 0 else None, **part) for index, part in enumerate(parts))
        return {"gpus": tuple(rows)}

    return found(every_second(machine, 700))


def test_slower_gpu_is_reported_as_a_straggler() -> None:
    slow, idle = {"sm_clock_hertz": 1.2e9}, {"utilization_ratio": 0.2}
    [finding] = _paces({}, {}, slow, {})
    assert (finding.fault, finding.subject, finding.kind) == ("straggler", "GPU 2 (H100)", "clock")
    assert finding.message == "it runs at 1200 MHz; the others run at 1800 MHz and have to wait for it"
    assert kinds(_paces({}, idle, {})) == [("straggler", "use")]
    assert _paces({}) == _paces({}, {}, {}) == _paces({}, idle) == _paces(idle, idle, idle) == []
    assert _paces({}, slow, {}, own=False) == []


def test_clock_set_back_does_not_hide_new_findings() -> None:
    samples = [Sample(START + 3600 * (second < 50) + second, (gpu(),)) for second in range(100)]
    samples += [Sample(START + 100 + second, (gpu(recovery_action=1.0),)) for second in range(5)]
    assert kinds(found(samples)) == [("hardware-fault", "advice 1")]


def test_reference_lists_every_detector_and_fragmentation() -> None:
    rows = [line for line in document().splitlines() if line.startswith("| ")][2:]
    assert len(rows) == len(DETECTORS) + 1
    for row, detector in zip(rows, DETECTORS, strict=False):
        first, _, why = detector.description.partition("\n")
        assert row.startswith(f"| {first.removesuffix(' Pure.')} | ")
        assert " ".join(why.split()).replace("|", "\\|") in row
        assert all(f"[{fault}](faults/" in row for fault in detector.faults)


@pytest.mark.parametrize("detector", DETECTORS, ids=lambda detector: detector.name.rpartition(".")[2])
def test_detector_refers_to_existing_pages_and_has_a_full_description(detector: Detector) -> None:
    assert set(detector.faults) <= {page.name for page in load()}
    assert "\n\n" in (detector.description)


def read(text: str) -> Finding | None:
    return of_report(text.encode())


def test_fragmentation_finding_states_the_sizes_of_the_free_pieces():
    page = find("device-oom-fragmentation")
    assert page is not None
    found = read(page.example)
    assert found is not None
    assert found.fault == "device-oom-fragmentation"
    assert found.message == "1.0 GiB did not fit, although 1.5 GiB was free: the largest piece was 768 MiB"
    assert found.evidence["fragmentation"] == 0.5


def test_full_memory_is_not_reported_as_fragmented():
    assert read((LOGS / "eager_fill.log").read_text()) is None


def test_fragmentation_is_not_reported_without_an_allocator_report():
    assert read("epoch 1 loss 0.5") is None


def test_nothing_else_is_reported_for_a_lost_gpu() -> None:
    """The rows and the advice of the time before it was lost are out of date."""

    def machine(second: int) -> GpuSample:
        if second == 60:  # read in the last sample before the loss, after the detectors had looked
            return GpuSample(
                0, "GPU-0", "H100", {"row_remap_pending": 1.0, "recovery_action": 1.0}, problem="GPU is lost"
            )
        return gpu() if second < 60 else GpuSample(0, "GPU-0", "H100", problem="GPU is lost")

    assert kinds(found(every_second(machine, 300))) == [("hardware-fault", "lost")]
