"""Several replicas in one process: neither running out of memory on one of them nor kill -9 costs anything."""

from __future__ import annotations

import pytest

TOLERANCE = 1e-12
EPOCHS = "30"
PATIENCE = 600
"""The time limit in seconds.

TensorFlow takes seconds to delete the iterator of several CPU devices, even without oomph.
"""


@pytest.fixture(scope="module")
def plain(shared):
    return shared.undisturbed("mirrored.py")


@pytest.fixture(scope="module", params=[(), ("--inside",)], ids=["outside the scope", "inside"])
def short(request, shared, plain, memory):
    """Two replicas with less memory than their batches need."""
    run = "-".join(["short", *request.param]).replace("--", "")
    ended = shared.start("mirrored.py", "short.npz", *request.param, run=run, env=memory(32)).finish(PATIENCE)
    assert ended.returncode == 0, ended.stderr[-3000:]
    return ended


def assert_close(got, expected) -> None:
    assert len(expected) > 12
    for name, value in expected.items():
        assert value.dtype.name in ("float64", "int64", "float32")
        assert abs(got[name] - value).max() <= TOLERANCE * max(1.0, abs(value).max()), name


@pytest.mark.slow
@pytest.mark.parametrize("where", [pytest.param((), id="outside the scope", marks=pytest.mark.slow), ("--inside",)])
def test_replica_micro_batches_match_whole_batches(shared, plain, load, where):
    run = f"divided-{len(where)}"
    ended = shared.oomph("--micro-batch=50", "--verify=2", "mirrored.py", "divided.npz", *where, run=run)
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert_close(load(plain.parent / "divided.npz"), load(plain))
    (verified,) = ended.events("verified")
    assert (verified.data["steps"], ended.summary["exactness"]) == (2, "exact")
    assert verified.data["weights"] <= TOLERANCE
    assert ended.events("fit-finished")[0].data["micro_batch"] == 50


@pytest.mark.slow
def test_out_of_memory_leaves_weights_metrics_and_outputs_unchanged(short, plain, load):
    assert_close(load(plain.parent / "short.npz"), load(plain))


@pytest.mark.slow
def test_real_memory_error_divides_each_replica_batch(short):
    training = [event.data for event in short.events("oom") if "during" not in event.data]
    assert training[0]["batch"] == 128, "256 samples, half of them on each replica"
    assert training[0]["phase"] == "compute"
    assert "OOM when allocating" in training[0]["message"]
    assert short.events("recovered")[0].data["micro_batch"] < 128
    assert (short.summary["exactness"], short.summary["restarts"]) == ("exact", 0)
    assert short.events("guard-failed") == []


@pytest.mark.slow
def test_predict_is_divided_after_an_error_but_evaluate_beforehand(short):
    """Evaluation is not tried whole if its batch is many times training's current micro-batch size."""
    assert {event.data.get("during") for event in short.events("oom")} == {None, "predict"}
    assert {event.data.get("during") for event in short.events("recovered")} == {None, "predict"}
    assert "evaluate" in {event.data.get("during") for event in short.events("probed")}


@pytest.mark.slow
@pytest.mark.parametrize("where", [(), ("--inside",)], ids=["outside the scope", "inside"])
def test_kill_9_in_micro_batches_gives_identical_results(work, same_bits, where):
    work.script("mirrored.py")
    alone = work.oomph("--micro-batch=50", "mirrored.py", "alone.npz", EPOCHS, *where, run="alone")
    assert alone.returncode == 0, alone.stderr[-3000:]
    running = work.start("--micro-batch=50", "--checkpoint-every=7", "mirrored.py", "killed.npz", EPOCHS, *where)
    running.kill_at_step(20)
    ours = running.finish()
    assert ours.returncode == 0, ours.stderr[-3000:]
    assert ours.summary["restarts"] == 1
    same_bits(work.folder / "killed.npz", work.folder / "alone.npz")
