"""Python-only state is restored within a fit: generators, lists, counters, closures, coroutines, open files."""

from __future__ import annotations

import pytest


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", [pytest.param((), id="graph"), pytest.param(("--eager",), id="eagerly", marks=pytest.mark.slow)]
)
def test_python_object_state_is_restored_after_a_kill(work, same_bits, kind):
    """Killed in the third of five ten-step epochs, a few steps after a mid-epoch checkpoint."""
    work.script("objects.py")
    expected = work.plain("objects.py", "plain.npz", *kind)
    assert expected.returncode == 0, expected.stderr[-3000:]
    running = work.start("--checkpoint-every=7", "objects.py", "ours.npz", *kind)
    running.kill_at_step(25)
    ours = running.finish()
    assert ours.returncode == 0, ours.stderr[-3000:]
    same_bits(work.folder / "ours.npz", work.folder / "plain.npz")
    (resumed,) = ours.events("resumed")
    assert (resumed.data["kind"], resumed.data["lost"]) == ("exact", [])
    assert (ours.summary["exactness"], ours.summary["restarts"]) == ("verified", 1)
    assert not any("begins anew" in line for line in ours.said)
