"""Out of memory under XLA on the rig's GPU: the control flow is TensorFlow's own, the numbers are garbage."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.rig, pytest.mark.slow]  # XLA compiles every size anew


def test_a_batch_that_does_not_fit_is_trained_in_parts_or_after_a_restart(work, rig):
    """With jit_compile="auto", which is XLA here; without XLA even shapes are computed by the rig, and garbage."""
    work.script("wide.py")
    ours = work.oomph("--checkpoint-every=1", "wide.py", env=rig)
    assert ours.returncode == 0, ours.stderr[-3000:]
    assert ours.stdout == "GPU jit True epochs 2\n"
    ooms = ours.events("oom")
    assert ooms, "65536 samples fitted: the rig has more memory than it should"
    assert ooms[0].data["batch"] == 65536
    phases = {event.data["phase"] for event in ooms}
    assert phases <= {"compute", "commit"}
    assert ours.events("recovered") or ours.summary["restarts"]
    if "commit" in phases:
        assert ours.summary["restarts"] == len(ours.events("restart-requested")) > 0
    final = ours.events("fit-finished")[-1].data["micro_batch"]
    assert final is not None
    assert 1 <= final < 65536
    assert (ours.summary["steps"], ours.summary["micro_batch"]) == (4, final)
    assert ours.summary["faults"].get("device-oom", 0) >= 1
