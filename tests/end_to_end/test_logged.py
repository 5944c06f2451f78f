"""The files that callbacks write during training: after a kill, every record is there exactly once."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module")
def plain(shared):
    shared.script("logs.py")
    ended = shared.plain("logs.py")
    assert ended.returncode == 0, ended.stderr[-3000:]
    (shared.folder / "board").rename(shared.folder / "plain-board")
    (shared.folder / "log.csv").rename(shared.folder / "plain.csv")
    return ended


@pytest.fixture(scope="module")
def killed(shared, plain):
    """Killed in the third of five eight-step epochs, about three steps after a checkpoint."""
    running = shared.start("--checkpoint-every=6", "logs.py")
    running.kill_at_step(21)
    ended = running.finish()
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert ended.summary["restarts"] == 1
    assert ended.summary["steps_repeated"] > 0
    return ended


@pytest.mark.slow
def test_tensorboard_events_appear_exactly_once_across_all_attempts(killed, plain, shared):
    expected = sorted(plain.stdout.splitlines())
    assert len(expected) == 5 * (8 * 2 + 4), "two numbers of every step, four of every epoch"
    assert sorted(killed.stdout.splitlines()) == expected
    assert len(list((shared.folder / "board" / "train").glob("events*"))) == 2, "one file of each attempt"
    assert killed.events("guard-failed") == []


@pytest.mark.slow
def test_csv_logger_lines_appear_exactly_once(killed, shared):
    assert (shared.folder / "log.csv").read_text() == (shared.folder / "plain.csv").read_text()


@pytest.mark.slow
def test_logs_before_the_first_checkpoint_are_rewritten(work, plain):
    work.script("logs.py")
    running = work.start("--checkpoint-every=18", "logs.py")
    running.kill_at_step(12)
    running.kill_at_step(21, attempt=2)
    ended = running.finish()
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert [event.data["kind"] for event in ended.events("resumed")] == ["exact"]
    assert sorted(ended.stdout.splitlines()) == sorted(plain.stdout.splitlines())
