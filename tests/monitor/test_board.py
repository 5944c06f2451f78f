"""The board between training process and sampler: exact, and never an error whatever the file contains."""

from __future__ import annotations

import math
import os
import struct
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oomph.monitor.board import BOARD, BoardReader, TrainingBoard
from oomph.monitor.census import Census, Holding
from oomph.monitor.metrics import of_scope
from oomph.monitor.sample import Baseline

KEYS = [metric.key for metric in of_scope("training")]


def test_board_returns_only_written_values(tmp_path):
    board, reader = TrainingBoard(tmp_path), BoardReader(tmp_path)
    assert reader.read() == ({}, ())
    board.write("loss", 0.25)
    board.write("steps_total", 12)
    board.beat()
    assert reader.read() == ({"loss": 0.25, "steps_total": 12}, ())
    board.write("loss", math.nan)
    assert reader.read()[0] == {"steps_total": 12}


def test_board_rejects_non_training_metrics(tmp_path):
    with pytest.raises(KeyError):
        TrainingBoard(tmp_path).write("power_watts", 1)


def test_each_baseline_is_read_once(tmp_path):
    board, reader = TrainingBoard(tmp_path), BoardReader(tmp_path)
    board.add_baseline(10, 1e9)
    board.add_baseline(20, 2e9)
    assert [(baseline.step, baseline.bytes_in_use) for baseline in reader.read()[1]] == [(10, 1e9), (20, 2e9)]
    assert reader.read()[1] == ()
    board.add_baseline(30, 3e9)
    assert [baseline.step for baseline in reader.read()[1]] == [30]


def test_full_board_keeps_the_newest_baselines(tmp_path):
    board, reader = TrainingBoard(tmp_path), BoardReader(tmp_path)
    for step in range(200):
        board.add_baseline(step, 1.0)
    assert [baseline.step for baseline in reader.read()[1]] == list(range(136, 200))


def test_new_attempt_clears_the_board(tmp_path):
    first, reader = TrainingBoard(tmp_path), BoardReader(tmp_path)
    first.write("loss", 1)
    first.add_baseline(1, 1.0)
    reader.read()
    child = os.fork()
    if child == 0:
        TrainingBoard(tmp_path).add_baseline(2, 2.0)
        os._exit(0)
    os.waitpid(child, 0)
    values, baselines = reader.read()
    assert values == {}
    assert [baseline.step for baseline in baselines] == [2]


def test_missing_or_linked_board_yields_no_values(tmp_path):
    reader = BoardReader(tmp_path)
    assert reader.read() == ({}, ())
    (tmp_path / "elsewhere").mkdir()
    TrainingBoard(tmp_path / "elsewhere").write("loss", 1)
    (tmp_path / BOARD).symlink_to(tmp_path / "elsewhere" / BOARD)
    assert reader.read() == ({}, ())


def test_board_in_another_format_yields_no_values(tmp_path):
    TrainingBoard(tmp_path).write("loss", 1)
    path = tmp_path / BOARD
    whole = path.read_bytes()
    for other in (whole[:-1], whole + b"\0", struct.pack("<q", 0x6F6F6D7068_02) + whole[8:], b"", bytes(len(whole))):
        path.write_bytes(other)
        assert BoardReader(tmp_path).read() == ({}, ())
    path.write_bytes(whole)
    assert BoardReader(tmp_path).read() == ({"loss": 1}, ())


@settings(max_examples=40)
@given(st.data())
def test_board_reader_survives_arbitrary_content(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("board")
    TrainingBoard(folder).write("loss", 1)
    path = folder / BOARD
    whole = bytearray(path.read_bytes())
    reader = BoardReader(folder)
    reader.read()
    for _ in range(2):
        place = data.draw(st.integers(8, len(whole) - 1))
        noise = data.draw(st.binary(min_size=1, max_size=40))
        whole[place : place + len(noise)] = noise
        path.write_bytes(bytes(whole[: len(path.read_bytes())]))
        values, baselines = reader.read()
        assert set(values) <= set(KEYS)
        assert not any(math.isnan(value) for value in values.values())
        assert len(baselines) <= 64
        assert all(isinstance(baseline, Baseline) for baseline in baselines)


CENSUS = Census(1000.5, 7, 20, 1, 1e9, None, (Holding("list", "Recorder.outputs", 12, 3 << 20, "EagerTensor"),))


def test_each_census_is_read_once(tmp_path):
    board, reader = TrainingBoard(tmp_path), BoardReader(tmp_path)
    for step in (20, 30):
        board.write_census(replace(CENSUS, step=step))
        reader.read()
        assert reader.census() == replace(CENSUS, step=step)
        assert reader.census() is None


def test_census_that_does_not_fit_is_dropped(tmp_path):
    board, reader = TrainingBoard(tmp_path), BoardReader(tmp_path)
    board.write_census(replace(CENSUS, holdings=tuple(Holding("dict", "\u05d0" * 80, 1) for _ in range(48))))
    reader.read()
    assert reader.census() is None


def test_half_written_census_is_not_read(tmp_path):
    board, reader = TrainingBoard(tmp_path), BoardReader(tmp_path)
    board.write_census(CENSUS)
    raw = bytearray((tmp_path / BOARD).read_bytes())
    place = raw.index(b"Recorder")
    raw[place : place + 8] = b"xxxxxxxx"
    (tmp_path / BOARD).write_bytes(raw)
    reader.read()
    assert reader.census() is None
