"""Witnesses survive the process that ran the steps, and a half-written one never counts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from oomph.checkpoint.witness import EPOCH, STEP, Witness, WitnessBoard

KEY = (1 << 64) - 1


def step(number: int, epoch: int = 0, **facts) -> Witness:
    return Witness(KEY, STEP, epoch, number, **facts)


def test_new_board_has_no_earlier_witnesses(tmp_path):
    assert WitnessBoard(tmp_path, 1).before == []


def test_every_witness_field_is_read_back_in_writing_order(tmp_path):
    board = WitnessBoard(tmp_path, 1)
    written = [
        Witness(KEY, STEP, 0, 0, KEY, KEY - 1, 0.1, 1e-300, KEY - 2),
        Witness(3, EPOCH, 4_000_000_000, 4_000_000_000, loss=-1e300),
        step(2),
    ]
    for each in written:
        board.write(each)
    assert WitnessBoard(tmp_path, 2).before == written


def test_later_attempts_append_to_the_board(tmp_path):
    for attempt in (1, 2, 3):
        board = WitnessBoard(tmp_path, attempt)
        assert len(board.before) == attempt - 1
        board.write(step(attempt))
        assert len(board.before) == attempt - 1, "what this process does is not from before"
    assert [w.step for w in WitnessBoard(tmp_path, 4).before] == [1, 2, 3]


def test_board_is_a_ring_that_keeps_the_newest_witnesses(tmp_path):
    board = WitnessBoard(tmp_path, 1)
    size = os.path.getsize(tmp_path / "witness")
    for number in range(20_000):
        board.write(step(number))
    before = WitnessBoard(tmp_path, 2).before
    assert [w.step for w in before] == list(range(20_000 - len(before), 20_000))
    assert 4096 <= len(before) < 20_000
    assert os.path.getsize(tmp_path / "witness") == size <= 2 << 20


@pytest.mark.parametrize("place", [0, 5, 47, 90])
def test_witness_with_a_flipped_bit_is_dropped(tmp_path, place):
    path = tmp_path / "witness"
    board = WitnessBoard(tmp_path, 1)
    for number in range(3):
        board.write(step(number, loss=0.5))
    record = os.path.getsize(path) // 8192
    data = bytearray(path.read_bytes())
    at = 2 * record + place % record
    data[at] ^= 4
    path.write_bytes(data)
    left = [w.step for w in WitnessBoard(tmp_path, 2).before]
    assert left in ([0, 2], [0, 1, 2])  # padding does not matter
    if place < 80:
        assert left == [0, 2]


@pytest.mark.parametrize("content", [b"", b"\x00" * 100, b"no witness at all " * 1000, os.urandom(1 << 20)])
def test_foreign_content_in_a_witness_file_is_ignored_and_overwritten(tmp_path, content):
    path = tmp_path / "witness"
    path.write_bytes(content)
    board = WitnessBoard(tmp_path, 1)
    assert board.before == []
    board.write(step(7))
    assert [w.step for w in WitnessBoard(tmp_path, 2).before] == [7]


def test_unwritable_board_raises_an_error(tmp_path):
    with pytest.raises(OSError, match="No such file"):
        WitnessBoard(tmp_path / "missing", 1)


def test_witness_file_is_readable_only_by_its_owner(tmp_path):
    WitnessBoard(tmp_path, 1)
    assert (tmp_path / "witness").stat().st_mode & 0o777 == 0o600


def test_written_witnesses_survive_a_kill(tmp_path):
    script = (
        "import os, signal, sys; from pathlib import Path\n"
        "from oomph.checkpoint.witness import STEP, Witness, WitnessBoard\n"
        "board = WitnessBoard(Path(sys.argv[1]), 1)\n"
        "for n in range(100): board.write(Witness(1, STEP, 0, n, loss=n / 7))\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    ended = subprocess.run([sys.executable, "-c", script, str(tmp_path)], timeout=60, check=False)
    assert ended.returncode == -signal.SIGKILL
    before = WitnessBoard(tmp_path, 2).before
    assert [(w.step, w.loss) for w in before] == [(n, n / 7) for n in range(100)]
