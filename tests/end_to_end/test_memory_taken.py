"""Memory that comes and goes between steps, as if another process took it, freed it, and took it again."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.slow

TOLERANCE = 1e-12
LIMIT = 32


@pytest.fixture(scope="module")
def plain(shared):
    return shared.undisturbed("taken.py")


@pytest.fixture(scope="module")
def ours(shared, plain, memory):
    ended = shared.oomph("taken.py", "ours.npz", run="ours", env=memory(LIMIT))
    assert ended.returncode == 0, ended.stderr[-3000:]
    return ended


def test_plain_keras_runs_out_of_memory(shared, plain, memory):
    ended = shared.plain("taken.py", "plain.npz", env=memory(LIMIT))
    assert ended.returncode == 1
    assert "OOM when allocating" in ended.stderr


def test_result_matches_a_run_with_enough_memory(ours, plain, load):
    got, expected = load(plain.parent / "ours.npz"), load(plain)
    assert len(expected) == 7
    for name, value in expected.items():
        assert abs(got[name] - value).max() <= TOLERANCE, name


def test_at_most_two_errors_occur_after_memory_is_taken(ours):
    ooms = [(event.data["epoch"], event.data["step"]) for event in ours.events("oom")]
    assert ooms[0] == (1, 3)
    assert len(ooms) <= 2
    assert (ours.summary["exactness"], ours.summary["restarts"]) == ("exact", 0)
