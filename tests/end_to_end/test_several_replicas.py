"""Several replicas and several fits: each replica's own state is restored on that replica."""

from __future__ import annotations

import pytest

FIRST = 16  # steps in the first fit; the second has 32


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "step"),
    [
        pytest.param((), 11, id="first fit"),
        pytest.param((), FIRST + 16, id="second fit"),
        pytest.param(("--restores",), FIRST + 16, id="restores"),
    ],
)
def test_killed_replicas_resume_bit_identically(work, kind, step, same_bits):
    """Includes BatchNormalization statistics and metrics, which differ between replicas."""
    work.script("replicas.py")
    expected = work.plain("replicas.py", "plain.npz", *kind)
    assert expected.returncode == 0, expected.stderr[-3000:]
    for saved in (work.folder / "saved").glob("*.keras"):
        saved.unlink()
    running = work.start("--checkpoint-every=6", "replicas.py", "ours.npz", *kind)
    running.kill_at_step(step)
    ours = running.finish()
    assert ours.returncode == 0, ours.stderr[-3000:]
    same_bits(work.folder / "ours.npz", work.folder / "plain.npz")
    assert ours.events("guard-failed") == []
    assert [event.data["kind"] for event in ours.events("resumed")][-1] in ("exact", "replayed")
    assert ours.summary["exactness"] in ("verified", "replayed"), ours.summary["exactness_reasons"]
