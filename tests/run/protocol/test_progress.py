"""The progress board: written values are read back, and a file in another format is not a board."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from oomph.protocol.progress import PROGRESS, ProgressBoard, read_progress
from oomph.run.policy.decide import Ending
from oomph.run.report.account import restart_line


def written(folder: Path) -> bytes:
    ProgressBoard(folder, 2).write(fit=1, epoch=3, step=4, steps=25, saved=20)
    return (folder / PROGRESS).read_bytes()


def test_written_position_is_read_back(tmp_path: Path) -> None:
    written(tmp_path)
    read = read_progress(tmp_path)
    assert read is not None
    assert (read.attempt, read.fit, read.epoch, read.step, read.steps, read.saved) == (2, 1, 3, 4, 25, 20)
    assert read.heartbeat_ns > 0


@pytest.mark.parametrize("magic", [0, 1, 0x6F6F6D7068_01, -1])
def test_board_in_another_format_is_rejected(tmp_path: Path, magic: int) -> None:
    (tmp_path / PROGRESS).write_bytes(struct.pack("<q", magic) + written(tmp_path)[8:])
    assert read_progress(tmp_path) is None


@pytest.mark.parametrize("change", [lambda raw: b"", lambda raw: raw[:-1], lambda raw: raw + b"x"])
def test_board_with_another_length_is_rejected(tmp_path: Path, change) -> None:
    (tmp_path / PROGRESS).write_bytes(change(written(tmp_path)))
    assert read_progress(tmp_path) is None


def test_restart_after_an_epoch_is_placed_at_its_end(tmp_path: Path) -> None:
    board = ProgressBoard(tmp_path, 1)
    board.write(fit=0, epoch=9, step=55, steps=550, saved=500, is_epoch_over=True)
    killed = Ending(-9, "killed")
    line = restart_line(killed, read_progress(tmp_path), 2)
    assert line.startswith(
        "the script was killed by SIGKILL at the end of epoch 10 of fit 1 (550 steps done, 500 saved)"
    )
    board.write(fit=0, epoch=10, step=1, steps=551, saved=500)
    assert "at fit 1, epoch 11, step 2 (551 steps done" in restart_line(killed, read_progress(tmp_path), 2)
