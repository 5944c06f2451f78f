"""Out of memory under XLA on the rig's GPU: the control flow is TensorFlow's own, the numbers are garbage."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.rig


@pytest.mark.parametrize("jit", ["auto", pytest.param("False", marks=pytest.mark.slow)])
def test_a_batch_that_does_not_fit_is_trained_in_parts_or_after_a_restart(work, rig, jit):
    work.script("wide.py")
    ours = work.oomph("--checkpoint-every=1", "wide.py", jit, env=rig)
    assert ours.returncode == 0, ours.stderr[-3000:]
    compiled = "True" if jit == "auto" else "False"
    assert ours.stdout == f"GPU jit {compiled} epochs 2\n"
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
