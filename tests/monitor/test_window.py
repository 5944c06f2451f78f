"""The window: what it holds, what it drops, and the series that detectors ask for."""

from __future__ import annotations

import pytest

from oomph.monitor.sample import Baseline, GpuSample, Sample
from oomph.monitor.window import Window


def window_of(seconds: int, length: float = 3600) -> Window:
    window = Window(length)
    for second in range(seconds):
        values = {"power_watts": float(second)} if second % 10 == 0 else {}
        gpus = (GpuSample(0, "a", values=values), GpuSample(1, "b", values={"power_watts": 1.0}))
        window.append(Sample(float(second), gpus, baselines=(Baseline(second, 1.0),) if second % 50 == 0 else ()))
    return window


def test_an_empty_window_has_no_newest_sample():
    with pytest.raises(IndexError):
        _ = Window().newest


def test_window_drops_old_samples_but_keeps_baselines():
    window = window_of(300, length=60)
    assert [sample.time for sample in window.last(1000)] == list(range(239, 300))
    assert [baseline.step for baseline in window.within_epochs] == [0, 50, 100, 150, 200, 250]


def test_last_seconds_of_a_window_are_oldest_first_and_include_both_ends():
    assert [sample.time for sample in window_of(100).last(3)] == [96, 97, 98, 99]


def test_series_has_points_only_where_a_value_was_measured():
    window = window_of(100)
    assert window.series("a", "power_watts", 30) == [(70, 70), (80, 80), (90, 90)]
    assert len(window.series("b", "power_watts", 30)) == 31
    assert window.series("b", "temperature_celsius", 30) == []
    assert window.series("another", "power_watts", 30) == []


def test_a_gpu_is_found_by_its_uuid_whatever_its_index():
    window = window_of(10)
    window.append(Sample(10.0, (GpuSample(0, "b", values={"power_watts": 2.0}),)))
    assert window.series("b", "power_watts", 1) == [(9, 1), (10, 2)]
    assert [gpu.uuid for gpu in window.gpus()] == ["b"]


def test_sample_of_some_seconds_ago_is_at_least_that_old_or_the_oldest():
    window = window_of(100)
    assert [window.ago(seconds).time for seconds in (0, 1, 2.5, 60, 1000)] == [99, 98, 96, 39, 0]


def test_first_and_latest_values_outlive_what_is_dropped():
    window = window_of(300, length=60)
    assert (window.first("a"), window.latest("a")) == ({"power_watts": 0.0}, {"power_watts": 290.0})
    window.append(Sample(300.0, (GpuSample(0, "a", values={"fan_ratio": 0.5}),)))
    assert window.first("a") == {"power_watts": 0.0, "fan_ratio": 0.5}
    assert window.latest("another") == window.first("another") == {}


def test_series_of_a_gpu_does_not_depend_on_its_place_in_the_list():
    window = Window()
    one, two = (GpuSample(index, str(index), values={"power_watts": float(index)}) for index in (1, 2))
    for second, gpus in enumerate([(one, two), (two, one), (two,), (), (one,)]):
        window.append(Sample(float(second), gpus))
    assert window.series("1", "power_watts", 10) == [(0, 1), (1, 1), (4, 1)]
    assert window.series("2", "power_watts", 10) == [(0, 2), (1, 2), (2, 2)]


def test_window_knows_whether_gpus_were_ever_seen():
    window = Window()
    window.append(Sample(0.0, (GpuSample(0, "a", problem="GPU is lost"),)))
    assert not window.has_seen_gpus
    window.append(Sample(1.0, (GpuSample(0, "a", values={"power_watts": 1.0}),)))
    assert window.has_seen_gpus
