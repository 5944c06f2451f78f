"""map_batches with TensorFlow's own out-of-memory errors: each sample once, few errors, all else untouched."""

from __future__ import annotations

import json

import pytest

MEGABYTES = 64
SAMPLE = 2 * 4096 * 4
"""The minimum number of bytes that the script's functions need for one sample: two tensors at once."""
LARGEST = (MEGABYTES << 20) // SAMPLE
"""The largest batch that could fit, however well the allocator works."""


def outcome(ended):
    assert ended.returncode == 0, ended.stderr[-3000:]
    done = json.loads(ended.stdout)
    assert (done["in_order"], done["once"], done["right"]) == (True, True, True)
    assert sum(done["finished"]) < sum(done["calls"]), "no call has failed"
    done["ooms"] = len(done["calls"]) - len(done["finished"])
    return done


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "source", "times"),
    [
        pytest.param("eager", "arrays", 1.2, marks=pytest.mark.slow),
        pytest.param("eager", "pipeline", 6, marks=pytest.mark.slow),
        ("graph", "generator", 20),
        pytest.param("eager", "generator", 64, marks=pytest.mark.slow),
    ],
)
def test_samples_are_mapped_in_order_with_at_most_two_errors(work, memory, function, source, times):
    work.script("mapped.py")
    batch = int(times * LARGEST)
    samples = max(batch, 4 * LARGEST) + 7
    done = outcome(work.plain("mapped.py", function, source, str(samples), str(batch), env=memory(MEGABYTES)))
    assert done["calls"][0] == batch
    assert done["ooms"] <= 2
    # The memory that is free after the first error lies in regions that the allocator has doubled repeatedly.
    assert max(done["finished"]) >= LARGEST / 4
    assert max(done["finished"][-5:-1]) >= LARGEST / 4


@pytest.mark.slow
def test_samples_are_mapped_in_order_under_xla(work, memory):
    work.script("mapped.py")
    batch = 16 << 10
    done = outcome(work.plain("mapped.py", "xla", "arrays", str(2 * batch), str(batch), env=memory(MEGABYTES)))
    assert done["ooms"] <= 2


@pytest.mark.slow
def test_journal_records_the_recovery_under_oomph_run(work, memory):
    work.script("mapped.py")
    batch = 2 * LARGEST
    ended = work.oomph("mapped.py", "eager", "arrays", str(2 * batch), str(batch), env=memory(MEGABYTES))
    done = outcome(ended)
    ooms, [recovered] = ended.events("oom"), ended.events("recovered")
    assert len(ooms) == done["ooms"] == recovered.data["ooms"]
    assert ooms[0].data["piece"] == batch
    assert "OOM when allocating tensor with shape" in ooms[0].data["message"]
    assert recovered.data["batch"] == batch
    assert 1 <= recovered.data["piece"] < batch
    assert ended.summary["recoveries"] == 1
    assert any(line.startswith("oomph: recovered in") for line in ended.said)


@pytest.mark.slow
@pytest.mark.parametrize("supervised", [pytest.param(False, marks=pytest.mark.slow), True])
def test_oversized_single_sample_raises_the_scripts_own_error(work, memory, supervised):
    work.script("mapped.py")
    start = work.oomph if supervised else work.plain
    ended = start("mapped.py", "huge", "arrays", "4", "1", env=memory(MEGABYTES))
    assert ended.returncode == 1
    assert "ResourceExhaustedError" in ended.own
    assert "OOM when allocating tensor with shape[67108864]" in ended.own
    [said] = [line for line in ended.said if "map_batches" in line]
    assert said == "oomph: out of memory in map_batches with element 0 alone, which cannot be split"
    if supervised:
        assert [event.data["piece"] for event in ended.events("oom")] == [1]
        assert ended.events("recovered") == []


def test_non_memory_error_is_raised_immediately(work, memory):
    work.script("mapped.py")
    ended = work.plain("mapped.py", "broken", "arrays", "4", "2", env=memory(MEGABYTES))
    assert ended.returncode == 1
    assert "ValueError: the script's own" in ended.own
    assert ended.said == []
