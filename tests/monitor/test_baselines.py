"""Baselines, from the board through the window."""

from __future__ import annotations

import os
import time

from oomph.monitor.board import BoardReader, TrainingBoard
from oomph.monitor.sample import Baseline, Sample
from oomph.monitor.window import Window


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
