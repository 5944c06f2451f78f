"""Scripts that call fit more than once, in the ways scripts do."""

from __future__ import annotations

import pytest

NAMES = ["head", "all", "failed", *(f"fold{n}" for n in range(3)), *(f"trial{n}" for n in (2, 4, 6, 8, 10)), "outer"]


@pytest.fixture(scope="module")
def plain(shared):
    shared.script("many_fits.py")
    ended = shared.plain("many_fits.py", "plain.npz")
    assert ended.returncode == 0, ended.stderr[-3000:]
    return ended


@pytest.fixture(scope="module")
def killed(shared, plain):
    """The same under oomph, killed in a fit that fails later on, and in the search after it."""
    running = shared.start("--checkpoint-every=7", "many_fits.py", "ours.npz")
    running.wait_for(lambda: any(event.data["fit"] == 2 for event in running.journal("fit-started")))
    running.kill_at_step(50, attempt=1)
    running.wait_for(lambda: any(event.data["fit"] == 8 for event in running.journal("fit-started")))
    steps = running.progress().steps
    running.kill_at_step(steps + 9, attempt=2)
    return running.finish()


def test_fine_tuning_folds_a_search_and_a_failing_fit_survive_a_kill_bit_for_bit(shared, plain, killed, same_bits):
    assert killed.returncode == 0, killed.stderr[-3000:]
    assert killed.stdout == plain.stdout
    same_bits(shared.folder / "ours.npz", shared.folder / "plain.npz")
    assert killed.summary["restarts"] == 2


def test_what_was_finished_is_not_trained_again(killed):
    last = [event for event in killed.events("resumed") if event.attempt == 3]
    finished = [event.data["fit"] for event in last if event.data["kind"] == "finished"]
    assert finished == [0, 1, 3, 4, 5, 6, 7], "all but the one that failed, and those after the kill"
    assert [event.data["fit"] for event in last if event.data["kind"] == "exact"] == [8]


def test_a_fit_within_a_fit_does_not_count_as_one(killed):
    assert max(event.data["fit"] for event in killed.events("fit-started")) == len(NAMES) - 1
    assert len({event.data["site"] for event in killed.events("fit-started")}) == 1


def test_processes_that_the_script_starts_are_guarded_but_not_checkpointed(work, same_bits):
    work.script("children.py")
    plain = work.plain("children.py", "spawn")
    (work.folder / "spawn.npz").rename(work.folder / "plain.npz")
    ours = work.oomph("--checkpoint-every=1", "children.py", "spawn", "fork")
    assert (ours.returncode, ours.stdout) == (0, "spawn ended with 0\nfork ended with 0\n"), ours.stderr[-3000:]
    assert plain.stdout == "spawn ended with 0\n"
    for method in ("spawn", "fork"):
        same_bits(work.folder / f"{method}.npz", work.folder / "plain.npz")
    roles = [event.role for event in ours.events("fit-started")]
    assert len(set(roles)) == 2
    assert all(role.startswith("worker") for role in roles)
    assert {event.data["guard"] for event in ours.events("fit-started")} == {"exact"}
    assert ours.events("checkpoint") == []
