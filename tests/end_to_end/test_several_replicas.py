"""Several replicas and several fits: each replica's own state is restored on that replica."""

from __future__ import annotations

import pytest

FIRST = 16  # steps of the first fit; the second has 32


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", [pytest.param((), id="new model"), pytest.param(("--restores",), id="restores", marks=pytest.mark.slow)]
)
def test_replicas_killed_in_the_second_fit_resume_bit_identically(work, kind, same_bits):
    """Includes BatchNormalization statistics and metrics, which differ between replicas."""
    work.script("replicas.py")
    expected = work.plain("replicas.py", "plain.npz", *kind)
    assert expected.returncode == 0, expected.stderr[-3000:]
    for saved in (work.folder / "saved").glob("*.keras"):
        saved.unlink()
    running = work.start("--checkpoint-every=6", "replicas.py", "ours.npz", *kind)
    running.kill_at_step(FIRST + 16)
    ours = running.finish()
    assert ours.returncode == 0, ours.stderr[-3000:]
    same_bits(work.folder / "ours.npz", work.folder / "plain.npz")
    assert ours.events("guard-failed") == []
    assert [event.data["kind"] for event in ours.events("resumed")][-1] in ("exact", "replayed")
    assert ours.summary["exactness"] in ("verified", "replayed"), ours.summary["exactness_reasons"]
