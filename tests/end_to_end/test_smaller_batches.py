"""A batch that neither fits nor can be divided: the run stops, or uses smaller batches if the user allows them."""

from __future__ import annotations

import re

import pytest

SIZE = 44
"""The limit in MiB: enough for the weights, their slots and a few hundred samples."""


@pytest.mark.slow
def test_allowed_smaller_batches_continue_the_training(work, memory):
    work.script("contrastive.py")
    ended = work.oomph("--allow-smaller-batch", "contrastive.py", env=memory(SIZE))
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert "oomph: smaller batches: the step cannot be traced for micro-batches" in ended.stderr
    size = ended.summary["micro_batch"]
    assert 1 < size < 1024
    assert f"batch 1024 continues as batches of {size} (smaller batches)" in ended.stderr
    updates = int(re.search(r"iterations (\d+)", ended.stdout)[1])
    assert updates >= 7 * -(-1024 // size)
    assert ended.summary["exactness"] == "not-equal"
    assert f"batches of at most {size}" in ended.stderr
    assert "split into smaller batches, each with its own update" in ended.stderr


@pytest.mark.slow
def test_run_needing_disallowed_smaller_batches_stops_and_names_the_flag(work, memory):
    work.script("contrastive.py")
    ended = work.oomph("contrastive.py", env=memory(SIZE))
    assert ended.returncode == 93
    assert "micro-batches are refused: the step cannot be traced for micro-batches" in ended.stderr
    assert "--allow-smaller-batch trains on smaller batches, each with its own update" in ended.stderr
