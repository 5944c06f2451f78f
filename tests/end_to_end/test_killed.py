"""kill -9 at any moment: the result is bit-identical, and only steps after the last checkpoint are repeated."""

from __future__ import annotations

import random
import time

import pytest

STEPS = 120  # three_fits.py: 36, 36 and 48
EVERY = 7


@pytest.fixture(scope="module")
def plain(shared):
    return shared.undisturbed("three_fits.py")


def assert_nothing_was_lost(ours, kills: int) -> None:
    assert ours.returncode == 0, ours.stderr[-3000:]
    summary = ours.summary
    assert (summary["restarts"], summary["steps"], summary["exit_code"]) == (kills, STEPS, 0)
    deaths = [event.data for event in ours.events("attempt-ended") if event.data["returncode"] == -9]
    assert len(deaths) == kills
    # At most: a checkpoint may be on disk before the board that records it.
    assert summary["steps_repeated"] <= sum(death["steps"] - death["saved"] for death in deaths)


@pytest.fixture(scope="module")
def killed(shared, plain):
    """Return a three_fits.py run, killed twice in a row in its first fit and once in its second."""
    (shared.folder / "log.csv").rename(shared.folder / "plain.csv")
    running = shared.start(f"--checkpoint-every={EVERY}", "three_fits.py", "ours.npz")
    running.kill_at_step(30, attempt=1)
    running.kill_at_step(31, attempt=2)
    assert running.kill_at_step(50, attempt=3).fit == 1
    return running.finish()


def test_run_survives_kills_in_two_of_three_fits(killed, plain, same_bits):
    assert_nothing_was_lost(killed, kills=3)
    same_bits(plain.parent / "ours.npz", plain)
    assert killed.summary["steps_repeated"] <= 3 * EVERY
    assert killed.summary["exactness"] == "verified"
    assert killed.summary["faults"] == {"killed": 3}


def test_every_attempt_resumes_from_the_last_checkpoint(killed):
    resumed = [(event.attempt, event.data["kind"]) for event in killed.events("resumed")]
    assert resumed == [(2, "exact"), (3, "exact"), (4, "finished"), (4, "exact")]
    saved = [event.data["saved"] for event in killed.events("attempt-ended")][:3]
    assert [event.data["steps"] for event in killed.events("resumed") if event.data["kind"] == "exact"] == saved
    assert sum("starting attempt" in line for line in killed.said) == 3


def test_csv_logger_file_matches_an_uninterrupted_run(killed, plain):
    assert (plain.parent / "log.csv").read_text() == (plain.parent / "plain.csv").read_text()


def test_finished_run_does_not_keep_checkpoints(killed):
    assert not list(killed.folder.glob("checkpoints/*"))


@pytest.mark.slow
def test_run_killed_before_its_first_checkpoint_starts_over_and_says_so(work, plain, same_bits):
    work.script("three_fits.py")
    running = work.start("--checkpoint-every=1000", "three_fits.py", "ours.npz")
    seen = running.kill_at_step(3)
    ours = running.finish()
    assert_nothing_was_lost(ours, kills=1)
    same_bits(work.folder / "ours.npz", plain)
    assert seen.saved == 0
    assert ours.summary["exactness"] == "started-over"
    assert ours.summary["steps_repeated"] >= 3
    assert any("from the beginning" in line for line in ours.said)


@pytest.mark.slow
def test_run_killed_while_saving_resumes_from_the_previous_checkpoint(work, same_bits):
    wide = ["--width", "2000"]  # large enough that writing it takes a while
    work.script("three_fits.py")
    expected = work.plain("three_fits.py", "plain.npz", *wide)
    assert expected.returncode == 0, expected.stderr[-3000:]
    running = work.start(f"--checkpoint-every={EVERY}", "three_fits.py", "ours.npz", *wide)
    running.wait_for_step(EVERY + 1)
    running.kill_when(lambda: list(running.folder.glob("checkpoints/tmp-*")))
    left = list(running.folder.glob("checkpoints/tmp-*"))
    ours = running.finish()
    assert left, "the kill came too late to interrupt anything"
    assert_nothing_was_lost(ours, kills=1)
    assert ours.events("checkpoint-refused") == []
    same_bits(work.folder / "ours.npz", work.folder / "plain.npz")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_run_survives_kills_at_ten_random_moments(work, plain, same_bits):
    """The kill may hit imports, tracing, steps, checkpoints, or the end of a fit."""
    work.script("three_fits.py")
    moments = random.Random(2)
    running = work.start("--checkpoint-every=5", "three_fits.py", "ours.npz")
    for attempt in range(1, 11):
        pid = running.script_pid(attempt)
        if attempt % 3:
            running.wait_for_step(1 + (attempt - 1) * 10, attempt)  # either progress, or oomph gives up, as it should
        until = time.monotonic() + moments.uniform(0, 0.5 if attempt % 3 else 4)
        running.wait_for(lambda until=until: time.monotonic() > until)
        running.kill(pid)
    ours = running.finish(seconds=600)
    assert_nothing_was_lost(ours, kills=10)
    same_bits(work.folder / "ours.npz", plain)
    assert ours.summary["steps_repeated"] <= 10 * 6
