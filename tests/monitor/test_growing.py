"""The detector for growth as seen from outside the training process."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from random import Random

from oomph.monitor.detection import Detection
from oomph.monitor.detectors import leaks
from oomph.monitor.detectors.leaks import growing
from oomph.monitor.finding import Finding
from oomph.monitor.sample import GpuProcess, GpuSample, Sample
from oomph.monitor.window import Window

MIB, GIB = 1 << 20, 1 << 30
TOTAL = 64.0 * GIB


def host(minutes: int, held: Callable[[float], float], total: float = TOTAL) -> list[Sample]:
    """Yield a reading every five seconds; `held` maps minutes to MiB."""
    rng, samples = Random(1), []
    for time in range(0, minutes * 60, 5):
        used = (4000 + held(time / 60) + rng.gauss(0, 5)) * MIB
        values = {"memory_total_bytes": total, "memory_used_bytes": used + 2 * GIB}
        samples.append(Sample(float(time), host=values, process={"resident_bytes": used}))
    return samples


def find(samples: list[Sample]) -> list[Finding]:
    seen = Window()
    for sample in samples:
        seen.append(sample)
    return list(growing.find(seen))


def test_steady_growth_over_three_hours_is_a_leak():
    [found] = find(host(200, lambda minute: 100 * minute))
    assert (found.fault, found.subject, found.kind) == ("memory-leak", "host memory", "")
    assert found.message.startswith(
        "the script's memory is growing by 100 MiB a minute and will reach the limit in about "
    )
    assert found.severity == "warning"


def test_growth_for_less_than_three_hours_is_reported_as_a_filling_buffer(monkeypatch):
    filling = host(170, lambda minute: 100 * minute)
    assert [found.kind for found in find(filling)] == ["filling"]
    monkeypatch.setattr(leaks, "_GROWING_SECONDS", 0)
    assert [found.kind for found in find(filling)] == [""]


def test_growth_under_50_minutes_is_not_reported(monkeypatch):
    filling = host(45, lambda minute: 100 * minute)
    assert find(filling) == []
    monkeypatch.setattr(leaks, "_GROWING_LASTING_SECONDS", 0)
    assert find(filling) != []


def test_small_growth_is_reported_as_a_filling_buffer_if_the_plan_is_unknown(monkeypatch):
    filling = host(200, lambda minute: 30 * minute)
    assert [found.kind for found in find(filling)] == ["filling"]
    monkeypatch.setattr(leaks, "_GROWING_LEAST_OF_ROOM", 0)
    assert [found.kind for found in find(filling)] == [""]


def test_early_growth_is_reported_as_a_notice_if_the_limit_is_near(monkeypatch):
    samples = host(15, lambda minute: 200 * minute, total=12.0 * GIB)
    [found] = find(samples)
    assert (found.severity, found.kind) == ("notice", "filling")
    assert "may only be filling up" in found.message
    monkeypatch.setattr(leaks, "_NEAR_SECONDS", 0)
    assert find(samples) == []


def test_growth_in_the_first_minutes_is_not_reported():
    assert find(host(6, lambda minute: 500 * minute, total=10.0 * GIB)) == []


def test_startup_memory_rise_is_not_reported():
    starting = host(30, lambda minute: 3000 * min(minute, 2) + 0.1 * minute)
    assert find(starting) == []


def test_growth_more_than_a_week_from_its_limit_is_not_reported(monkeypatch):
    slow = host(60, lambda minute: 5 * minute)
    assert find(slow) == []
    monkeypatch.setattr(leaks, "_FAR_SECONDS", 1e9)
    assert find(slow) != []


def test_notice_is_reported_again_when_it_becomes_a_leak():
    detection = Detection([growing])
    told = [found for sample in host(40, lambda m: 100 * m, total=8.5 * GIB) for found in detection.take(sample).told]
    assert [(found.kind, found.severity) for found in told] == [("filling", "notice"), ("", "warning")]


def planned(samples: list[Sample], minutes: float) -> list[Sample]:
    """Yield the same for a fit that takes this many minutes in total, with one step a second."""
    return [
        replace(
            sample,
            training={
                "epochs": 1.0,
                "epoch": 1.0,
                "steps_per_epoch": 60.0 * minutes,
                "step_of_epoch": sample.time,
                "step_seconds_total": sample.time,
                "steps_total": sample.time,
            },
        )
        for sample in samples
    ]


def test_slow_growth_over_most_of_a_planned_training_run_is_a_leak():
    growing_slowly = host(60, lambda minute: 20 * minute)
    assert [found.kind for found in find(planned(growing_slowly, 65))] == [""]
    assert find(planned(growing_slowly, 70)) == []
    assert find(planned(growing_slowly, 300)) == []


def test_early_growth_reaching_the_limit_in_this_fit_is_reported():
    samples = host(40, lambda minute: 100 * minute, total=16.0 * GIB)
    [found] = find(planned(samples, 300))
    assert (found.severity, found.kind) == ("notice", "filling")
    assert find(planned(samples, 60)) == []


def test_growth_taking_most_of_the_free_memory_is_immediately_a_leak():
    [found] = find(host(15, lambda minute: 200 * minute, total=9.3 * GIB))
    assert (found.kind, found.severity) == ("", "warning")


def test_growth_that_levels_off_over_hours_is_not_reported():
    assert find(host(240, lambda minute: 800 * math.log1p(minute / 2))) == []


def gpu(minutes: int, held: Callable[[float], float], size: Callable[[float], int | None] = int) -> list[Sample]:
    samples = []
    for time in range(0, minutes * 60, 10):
        amount = 2 * GIB + held(time / 60) * MIB
        processes = (GpuProcess(1, size(amount), own=True), GpuProcess(2, int(time * MIB), own=False))
        values = {"memory_total_bytes": 24.0 * GIB, "memory_used_bytes": amount}
        samples.append(Sample(float(time), gpus=(GpuSample(0, "GPU-1", values=values, processes=processes),)))
    return samples


def test_growing_script_gpu_memory_is_reported():
    [found] = find(gpu(200, lambda minute: 50 * minute))
    assert found.subject == "GPU 0"
    assert found.message.startswith("the script's memory on GPU 0 is growing by 50 MiB a minute")


def test_doubling_gpu_memory_pool_is_not_a_leak():
    assert find(gpu(60, lambda minute: 512 * (minute > 5) + 1024 * (minute > 20) + 2048 * (minute > 45))) == []


def test_growth_is_not_reported_for_a_lost_gpu():
    samples = gpu(200, lambda minute: 10 * minute)
    lost = replace(samples[-1], gpus=(GpuSample(0, "GPU-1", problem="GPU is lost"),))
    unknown = replace(samples[-1], gpus=(GpuSample(0, "GPU-1"),))
    assert len(find([*samples, unknown])) == 1
    assert find([*samples, lost]) == []


def test_growth_is_not_reported_for_other_processes_or_unknown_sizes():
    assert find(gpu(40, lambda minute: 0)) == []
    assert find(gpu(40, lambda minute: 50 * minute, size=lambda _: None)) == []


def test_growth_series_skips_samples_without_processes():
    samples = gpu(60, lambda minute: 50 * minute)
    asked_rarely = [
        sample if number % 2 else replace(sample, gpus=(replace(sample.gpus[0], processes=None),))
        for number, sample in enumerate(samples)
    ]
    assert len(find(asked_rarely)) == 1
