"""The window: what it keeps and drops, process arrivals, histories, baselines, and the series it returns."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable

import pytest
from days import GIB, START

from oomph.monitor.board import BoardReader, TrainingBoard
from oomph.monitor.detection import Detection
from oomph.monitor.detectors.memory import other_process
from oomph.monitor.finding import FindingChanges
from oomph.monitor.sample import Baseline, GpuProcess, GpuSample, Sample
from oomph.monitor.window import History, ProcessArrivals, Window

OWN, OTHER = GpuProcess(7, int(60 * GIB), own=True), GpuProcess(99, None, "jupyter")


def window_of(seconds: int, length: float = 3600) -> Window:
    window = Window(length)
    for second in range(seconds):
        values = {"power_watts": float(second)} if second % 10 == 0 else {}
        gpus = (GpuSample(0, "a", values=values), GpuSample(1, "b", values={"power_watts": 1.0}))
        window.append(Sample(float(second), gpus, baselines=(Baseline(second, 1.0),) if second % 50 == 0 else ()))
    return window


def test_empty_window_has_no_latest_sample():
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


def test_gpu_is_found_by_uuid_whatever_its_index():
    window = window_of(10)
    window.append(Sample(10.0, (GpuSample(0, "b", values={"power_watts": 2.0}),)))
    assert window.series("b", "power_watts", 1) == [(9, 1), (10, 2)]
    assert [gpu.uuid for gpu in window.gpus()] == ["b"]


def test_earlier_sample_is_at_least_as_old_as_requested_or_the_oldest():
    window = window_of(100)
    assert [window.ago(seconds).time for seconds in (0, 1, 2.5, 60, 1000)] == [99, 98, 96, 39, 0]


def test_first_and_latest_values_outlive_dropped_samples():
    window = window_of(300, length=60)
    assert (window.first("a"), window.latest("a")) == ({"power_watts": 0.0}, {"power_watts": 290.0})
    window.append(Sample(300.0, (GpuSample(0, "a", values={"fan_ratio": 0.5}),)))
    assert window.first("a") == {"power_watts": 0.0, "fan_ratio": 0.5}
    assert window.latest("another") == window.first("another") == {}


def test_gpu_series_does_not_depend_on_list_order():
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


def test_history_keeps_the_lowest_value_of_every_twenty_seconds():
    history = History()
    for second in range(60):
        history.add(float(second), 100.0 + second % 7)
    assert [(time, value) for time, value in history.points] == [(0, 100), (21, 100), (42, 100)]


def test_three_day_history_keeps_at_most_1024_points_and_both_ends():
    history = History()
    for minute in range(3 * 1440):
        history.add(60.0 * minute, float(minute))
    places = [time for time, _ in history.points]
    assert 512 < len(places) <= 1024
    assert (places[0], places[-1]) == (0.0, 60.0 * (3 * 1440 - 1))
    assert places == sorted(places)


def test_history_keeps_recording_after_the_clock_is_set_back():
    history = History()
    for now in (1000.0, 10.0, 40.0):
        history.add(now, 1.0)
    assert len(history.points) == 3


def changes(samples: Iterable[Sample]) -> list[tuple[float, FindingChanges]]:
    detection = Detection([other_process])
    return [(sample.time - START, detection.take(sample)) for sample in samples]


def machine(second: int, *others: GpuProcess, used: float = 60.0) -> Sample:
    """Its processes are listed every ten seconds."""
    listed = (OWN, *others) if second % 10 == 0 else None
    return Sample(START + second, (GpuSample(0, "u", values={"memory_used_bytes": used * GIB}, processes=listed),))


def test_arrival_of_another_process_is_reported_until_it_ends():
    there = range(50, 5000)
    seen = changes(machine(at, *[OTHER] * (at in there), used=69.0 if at in there else 60.0) for at in range(5200))
    assert [at for at, each in seen if each.told] == [50]
    assert [(at, ended.seconds) for at, each in seen for ended in each.ended] == [(5050, 4940)]


def test_later_script_growth_is_not_blamed_on_another_process():
    seen = changes(machine(at, *[OTHER] * (at >= 50), used=60.0 + 10 * (at >= 300)) for at in range(600))
    assert not any(each.told for _, each in seen)


def test_small_process_is_reported_as_an_arrival_once_it_grows():
    sized = [GpuProcess(99, int((0.5 + 2 * (at >= 300)) * GIB)) for at in range(600)]
    seen = changes(machine(at, *[sized[at]] * (at >= 50)) for at in range(600))
    assert [at for at, each in seen if each.told] == [300]


def test_arrival_records_the_memory_rise_and_whether_the_script_came_first():
    arrivals = ProcessArrivals()
    arrivals.take(0, [OWN], 60.0)
    arrivals.take(10, [OWN, OTHER], 62.0)
    arrivals.take(20, [OWN, OTHER], 69.0)
    arrivals.take(90, [OWN, OTHER], 80.0)
    came = arrivals.of(99)
    assert came is not None
    assert (came.time, came.to_the_script, came.rise_bytes) == (10, True, 9)
    assert arrivals.of(7) is None
    arrivals.take(100, [OWN], 60.0)
    assert arrivals.of(99) is None
    arrivals.take(400, [OTHER], None)
    again = arrivals.of(99)
    assert again is not None
    assert (again.to_the_script, again.rise_bytes) == (False, 0)


def test_memory_baseline_has_its_time_process_step_and_epoch(tmp_path):
    board, reader, begin = TrainingBoard(tmp_path), BoardReader(tmp_path), time.time()
    board.add_baseline(200, 5.0)
    board.add_baseline(300, 7.0, epoch=1)
    _, baselines = reader.read()
    assert [(each.step, each.bytes_in_use, each.epoch) for each in baselines] == [(200, 5.0, 0), (300, 7.0, 1)]
    assert all(begin <= each.time <= time.time() and each.process == os.getpid() for each in baselines)
    assert reader.read()[1] == ()


def test_window_keeps_every_end_of_epoch_reading_among_many_others():
    window = Window()
    for step in range(10_000):
        end = Baseline(step, 1.0, epoch=1 + step // 1000) if step % 1000 == 999 else Baseline(step, 1.0)
        window.append(Sample(float(step), baselines=(end,)))
    assert [each.epoch for each in window.ends_of_epochs] == list(range(1, 11))
    assert len(window.within_epochs) <= 2048
    assert window.within_epochs[0].step == 0
    assert window.within_epochs[-1].step == 9998
    steps = [each.step for each in window.within_epochs]
    assert steps == sorted(set(steps))


def test_newest_500_readings_are_all_kept():
    window = Window()
    for step in range(5000):
        window.append(Sample(float(step), baselines=(Baseline(step, 1.0),)))
    assert [each.step for each in window.within_epochs][-500:] == list(range(4500, 5000))
