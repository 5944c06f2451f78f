"""The pace of workers: what is written is read, a day takes as much as ten minutes, damage is left out."""

from __future__ import annotations

import os
import random
import struct

import pytest
from recorded_workers import BEGIN, readings, record

from oomph.monitor.pace import PACE, PaceBoard, PaceReading, read_pace, read_paces
from oomph.process.process_identity import ProcessIdentity


def test_what_a_worker_writes_is_read_in_order_with_its_process(tmp_path):
    record(tmp_path, 0, readings(60))
    record(tmp_path, 1, readings(60, own=0.29))
    first, second = read_paces(tmp_path)
    assert (first.rank, second.rank) == (0, 1)
    assert first.owner == ProcessIdentity.here()
    assert list(first.readings) == list(readings(60))
    assert second.newest == list(readings(60, own=0.29))[-1]


def test_day_keeps_at_most_512_readings_over_the_whole_time(tmp_path):
    record(tmp_path, 0, readings(86400))
    pace = read_pace(tmp_path, 0)
    assert pace is not None
    assert 256 <= len(pace.readings) <= 513
    assert pace.readings[0].time == BEGIN
    assert pace.newest.time == BEGIN + 86399
    gaps = [after.time - before.time for before, after in zip(pace.readings, pace.readings[1:-1], strict=False)]
    assert max(gaps) <= 2 * 256, "no part of the day is left out"


def test_newest_reading_alone_is_read_as_well(tmp_path):
    record(tmp_path, 0, readings(600))
    pace = read_pace(tmp_path, 0, is_newest_only=True)
    assert pace is not None
    assert [each.time for each in pace.readings] == [BEGIN + 599]


def test_next_attempt_continues_the_file_of_the_one_before(tmp_path):
    record(tmp_path, 0, readings(30))
    record(tmp_path, 0, readings(30, attempt=2, begin=BEGIN + 40, steps_before=90))
    pace = read_pace(tmp_path, 0)
    assert pace is not None
    assert [each.attempt for each in pace.readings] == [1] * 30 + [2] * 30


def test_run_of_one_process_has_no_paces(tmp_path):
    record(tmp_path, 0, readings(30))
    assert read_paces(tmp_path) == ()


def test_values_that_are_not_measured_are_nan(tmp_path):
    board = PaceBoard(tmp_path)
    board.write(PaceReading(1, BEGIN, 1.0, 3, 0.5))
    board.close()
    pace = read_pace(tmp_path, 0)
    assert pace is not None
    assert pace.newest.pool_bytes != pace.newest.pool_bytes


@pytest.mark.parametrize("seed", range(20))
def test_damage_raises_nothing_and_leaves_readings_in_order(tmp_path, seed):
    record(tmp_path, 0, readings(300))
    drawn, file = random.Random(seed), tmp_path / PACE
    raw = bytearray(file.read_bytes())
    for _ in range(200):
        raw[drawn.randrange(len(raw))] = drawn.randrange(256)
    if seed % 4 == 0:
        raw = raw[: drawn.randrange(len(raw))]
    file.write_bytes(raw)
    pace = read_pace(tmp_path, 0)
    for each in () if pace is None else pace.readings:
        assert each.time == each.time
        assert each.steps >= 0


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0, 1e300])
def test_planted_times_are_left_out(tmp_path, value):
    record(tmp_path, 0, readings(3))
    file = tmp_path / PACE
    raw = bytearray(file.read_bytes())
    struct.pack_into("<d", raw, struct.calcsize("<2qd200s") + 8, value)
    file.write_bytes(raw)
    pace = read_pace(tmp_path, 0)
    assert pace is not None
    assert [each.time for each in pace.readings] == [BEGIN, BEGIN + 1, BEGIN + 2]


def test_link_and_fifo_are_not_followed(tmp_path):
    record(tmp_path, 1, readings(3))
    (tmp_path / "workers" / "1" / PACE).rename(tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", tmp_path / "workers" / "1" / PACE)
    os.mkdir(tmp_path / "workers" / "2")
    os.mkfifo(tmp_path / "workers" / "2" / PACE)
    assert read_paces(tmp_path) == ()
