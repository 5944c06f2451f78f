"""Curves keep what matters of the samples: spikes, gaps and restarts."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from recorded_runs import BEGIN, GIB, create, sample, samples

from oomph.monitor.sample import Sample
from oomph.monitor.store import COMPRESSED, TAIL
from oomph.report.curves import INTERVALS, read_curves


def curves(tmp_path, recorded):
    run = create(tmp_path / "run")
    sample(run, recorded)
    return read_curves(run)


def test_every_sample_of_a_short_run_is_a_point(tmp_path):
    found = curves(tmp_path, samples(100))
    assert (len(found.times), found.samples, found.is_thinned) == (100, 100, False)
    assert found.gpus == {0: "NVIDIA GeForce RTX 4090", 1: "NVIDIA GeForce RTX 4090"}
    assert found.columns["gpu1.memory_total_bytes"] == (24.0 * GIB,) * 100
    assert found.columns["step_seconds"][0] is None, "nothing is known before the first step"
    assert found.columns["step_seconds"][1:] == pytest.approx((0.32,) * 99)
    assert found.columns["input_wait_ratio"][50] == pytest.approx(0.04 / 0.96)
    assert found.columns["examples_per_second"][50] == pytest.approx(100.0)


def test_spike_of_one_second_survives_thinning_and_stays_where_it_was(tmp_path):
    recorded = list(samples(20_000))
    for place, held in ((7_777, 99 * GIB), (12_345, 1)):
        recorded[place] = replace(recorded[place], process={"resident_bytes": held})
    found = curves(tmp_path, recorded)
    assert found.is_thinned
    assert len(found.times) <= 2 * INTERVALS + 2
    values = dict(zip(found.times, found.columns["process.resident_bytes"], strict=True))
    high, low = max(values, key=values.__getitem__), min(values, key=values.__getitem__)
    assert (values[high], values[low]) == (99 * GIB, 1)
    assert abs(high - BEGIN - 7_777) <= found.interval
    assert abs(low - BEGIN - 12_345) <= found.interval


def test_time_without_samples_interrupts_the_curves(tmp_path):
    found = curves(tmp_path, [*samples(30), *samples(30, begin=BEGIN + 300)])
    gap = [at for at, value in zip(found.times, found.columns["host.memory_used_bytes"], strict=True) if value is None]
    (middle,) = gap
    assert BEGIN + 30 < middle < BEGIN + 300


def test_counters_of_a_new_process_give_no_step_time_across_the_restart(tmp_path):
    found = curves(tmp_path, [*samples(30), *samples(30, begin=BEGIN + 31)])
    known = [value for value in found.columns["step_seconds"] if value is not None]
    assert known == pytest.approx([0.32] * len(known))
    assert len(known) >= 56


def test_time_of_a_step_longer_than_a_second_fills_the_seconds_of_that_step(tmp_path):
    recorded = [
        Sample(BEGIN + after, training={"steps_total": after // 5, "step_seconds_total": float(after // 5 * 5)})
        for after in range(21)
    ]
    found = curves(tmp_path, recorded)
    assert found.columns["step_seconds"][1:] == pytest.approx((5.0,) * 20)


def test_mean_counts_each_step_once_however_long_it_took(tmp_path):
    """Of 100 steps, 10 take a second each, and 90 take a tenth: the mean is 0.19 s, not that of the seconds."""
    done = [(float(after), float(after)) for after in range(11)] + [(10.0 + 10 * n, 10.0 + n) for n in range(1, 10)]
    recorded = [
        Sample(BEGIN + after, training={"steps_total": steps, "step_seconds_total": seconds})
        for after, (steps, seconds) in enumerate(done)
    ]
    assert curves(tmp_path, recorded).means == pytest.approx({"step_seconds": 0.19})


def test_clock_that_went_back_is_reported_and_times_ascend(tmp_path):
    found = curves(tmp_path, [*samples(60), *samples(60, begin=BEGIN - 3600)])
    assert found.went_back
    assert list(found.times) == sorted(found.times)
    assert found.samples == 120


@pytest.mark.parametrize(
    "line",
    [
        "[1790000001]", '["x",[],[],[],[]]', "[1790000001,[[0]],[],[],[]]", "[1e300,[],[],[],[]]",
        '[1790000001,[[0,"u",5,["x",true]]],"abc",5,null]', "{}", "[]", "\x00",
    ],
)  # fmt: skip
def test_lines_that_are_no_samples_are_left_out(tmp_path, line):
    run = create(tmp_path / "run")
    sample(run, samples(10))
    with (run / TAIL).open("a") as tail:
        tail.write(f"{line}\n")
    assert read_curves(run).samples <= 11
    assert set(read_curves(run).columns["host.memory_used_bytes"]) <= {40.0 * GIB, None}


def test_nan_and_infinity_are_gaps(tmp_path):
    recorded = list(samples(10))
    recorded[4] = replace(recorded[4], training={"recent_loss": float("nan")})
    recorded[5] = replace(recorded[5], training={"recent_loss": float("inf")})
    found = curves(tmp_path, recorded)
    assert [place for place, value in enumerate(found.columns["training.recent_loss"]) if value is None] == [4, 5]


def test_run_without_samples_has_no_curves(tmp_path):
    run = create(tmp_path / "run")
    assert read_curves(run).columns == {}
    (run / "monitor").mkdir()
    (run / COMPRESSED).write_bytes(b"\x1f\x8b damaged")
    assert read_curves(run).samples == 0


@pytest.mark.slow
@pytest.mark.alone
def test_day_of_eight_gpus_is_read_in_four_seconds(tmp_path):
    run = create(tmp_path / "run")
    sample(run, samples(86_400, gpus=8))
    began = time.process_time()
    found = read_curves(run)
    assert time.process_time() - began < 4
    assert found.samples == 86_400
    assert len(found.columns) > 40
