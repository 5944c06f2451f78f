"""Real out-of-memory errors from TensorFlow's own allocator: the result matches a run with enough memory."""

from __future__ import annotations

import re

import pytest

FITS = ("plain", "sample_weight", "class_weight")
TOLERANCE = 1e-12


@pytest.fixture(scope="module")
def enough(shared):
    """exact.py with as much memory as it needs."""
    return shared.undisturbed("exact.py")


@pytest.fixture(scope="module")
def short(shared, enough, memory):
    """exact.py under oomph, on a device that is too small for its batches."""
    ended = shared.oomph("exact.py", "short.npz", run="short", env=memory(28))
    assert ended.returncode == 0, ended.stderr[-3000:]
    return ended


@pytest.fixture(scope="module")
def compiled(shared, enough):
    """exact.py under oomph, compiled by XLA and in micro-batches from the start."""
    ended = shared.oomph("--micro-batch=300", "exact.py", "compiled.npz", "--jit", run="compiled")
    assert ended.returncode == 0, ended.stderr[-3000:]
    return ended


def assert_close(ours, plain, only: str) -> None:
    names = [name for name in plain if name.startswith(f"{only}/")]
    assert len(names) >= 25
    for name in names:
        assert ours[name].dtype == plain[name].dtype
        assert abs(ours[name] - plain[name]).max() <= TOLERANCE, name


@pytest.mark.slow
def test_every_variable_except_counters_has_double_precision(enough, load):
    dtypes = {name: value.dtype.name for name, value in load(enough).items()}
    counters = [name for name, dtype in dtypes.items() if dtype != "float64"]
    assert {dtypes[name] for name in counters} == {"int64"}
    assert len(counters) == 3, "the iterations of three optimizers"
    assert {int(load(enough)[name]) for name in counters} == {30}


@pytest.mark.parametrize("fit", FITS)
def test_weights_slots_and_metrics_are_unchanged_by_out_of_memory(short, enough, load, fit):
    assert_close(load(enough.parent / "short.npz"), load(enough), fit)


@pytest.mark.slow
@pytest.mark.parametrize("fit", FITS)
def test_xla_micro_batches_give_the_same_weights_slots_and_metrics(compiled, enough, load, fit):
    assert_close(load(enough.parent / "compiled.npz"), load(enough), fit)


def test_real_errors_and_recoveries_are_in_the_journal(short):
    ooms, recoveries = short.events("oom"), short.events("recovered")
    assert recoveries[0].data["fit"] == 0
    # Which tensors are alive at the same time depends on the order in which the cores run operations, so a size may fit
    # in one step but not in a later one. Each search must then end at a smaller size than the one before.
    for fit in {event.data["fit"] for event in recoveries}:
        found = [event.data["micro_batch"] for event in recoveries if event.data["fit"] == fit]
        assert found == sorted(set(found), reverse=True), "no search ends where an earlier one of this fit did"
        assert len(found) <= 3, "a few searches find a size for the whole fit"
    for event in ooms:
        # One-hot labels are float32. Which tensor does not fit depends on the order in which the cores run operations.
        assert re.match(
            r"OOM when allocating tensor with shape\[[\d,]+\] and type (double|float)\b", event.data["message"]
        )
        assert event.data["requested_bytes"] > 0
    assert ooms[0].data["batch"] == 2048
    for event in recoveries:
        assert event.data["batch"] == 2048
        assert 1 <= event.data["micro_batch"] < 2048
    assert {event.data["guard"] for event in short.events("fit-started")} == {"exact"}


def test_every_fit_continues_in_micro_batches(short):
    sizes = [event.data["micro_batch"] for event in short.events("fit-finished")]
    assert len(sizes) == 3
    assert all(1 <= size < 2048 for size in sizes)


def test_summary_reports_the_recoveries(short):
    summary = short.summary
    assert summary["recoveries"] == len(short.events("recovered"))
    assert summary["faults"] == {"device-oom": len(short.events("recovered"))}
    assert (summary["restarts"], summary["steps"], summary["steps_repeated"]) == (0, 90, 0)
    assert summary["exactness"] == "exact"
    assert summary["micro_batch"] == short.events("fit-finished")[-1].data["micro_batch"]
    assert summary["device_peak_bytes"] <= 28 << 20
    assert any("nothing was applied" in line for line in short.said)


@pytest.mark.slow
def test_micro_batch_size_set_by_the_user_prevents_all_errors(compiled):
    assert compiled.events("oom") == []
    assert [event.data["micro_batch"] for event in compiled.events("fit-finished")] == [300, 300, 300]


@pytest.mark.slow
def test_script_can_catch_its_own_out_of_memory_error(work, memory):
    """The loss depends on the whole batch, so nothing is recovered and the script sees the usual error."""
    work.script("catches.py")
    ours = work.oomph("catches.py", env=memory(60))
    assert (ours.returncode, ours.stdout) == (0, "caught ResourceExhaustedError at 8192\ntrained at 256\n")
    assert [event.data["phase"] for event in ours.events("oom")] == ["compute"]
    assert [event.data["kind"] for event in ours.events("probed")] == ["refused"]
    assert ours.summary["restarts"] == 0


@pytest.mark.slow
def test_run_exits_with_93_when_micro_batches_are_refused(work, memory):
    text = (work.folder / work.script("catches.py")).read_text()
    work.write(text.partition("for size in")[0] + "train(8192)\n", "ends.py")
    ours = work.oomph("ends.py", env=memory(60))
    assert ours.returncode == 93
    assert "ResourceExhaustedError" in ours.own, "the script's own error, with its traceback"
    assert ours.summary["gave_up"].startswith("micro-batches are refused: ")
    assert ours.summary["restarts"] == 0


def test_oversized_single_sample_stops_the_run_without_a_restart(work, memory):
    work.script("huge_sample.py")
    ours = work.oomph("huge_sample.py", env=memory(60))
    assert ours.returncode == 93
    assert "ResourceExhaustedError" in ours.own
    assert ours.summary["restarts"] == 0
    words = r"one sample does not fit: the step needs \d+ MiB in one block, but the device has 60 MiB in total"
    assert re.fullmatch(words, ours.summary["gave_up"])


@pytest.mark.slow
def test_training_on_a_full_device_needs_no_more_memory_than_keras(work, load, memory):
    """Weights and slots take 24 MB. Holding back Adam's assignments would take another 16 MB."""
    work.script("heavy.py")
    plain = work.plain("heavy.py", "plain.npz", env=memory(34))
    assert plain.returncode == 0, plain.stderr[-3000:]
    ours = work.oomph("heavy.py", "ours.npz", env=memory(34))
    assert ours.returncode == 0, ours.stderr[-3000:]
    assert (ours.events("oom"), ours.summary["restarts"]) == ([], 0)
    assert any("too little device memory is free to defer a step's update" in line for line in ours.said)
    one, other = load(work.folder / "plain.npz"), load(work.folder / "ours.npz")
    assert one.keys() == other.keys()
    assert all((one[name] == other[name]).all() for name in one)
    roomy = work.oomph("heavy.py", "ours.npz", run="roomy", env=memory(200))
    assert roomy.events("fit-finished")[0].data["device_peak_bytes"] > 34 << 20, "with room, they are held back"
    assert roomy.events("fit-started")[0].data["held_bytes"] > 16_000_000


@pytest.mark.slow
def test_micro_batches_never_hold_all_gradients_at_once(work, memory):
    """Weights and slots: 24 MB; gradient sums: 8 MB. A part's gradients or the update's values would add 8 MB."""
    work.script("heavy.py")
    ours = work.oomph("--micro-batch=8", "heavy.py", "ours.npz", env=memory(40))
    assert ours.returncode == 0, ours.stderr[-3000:]
    assert (ours.events("oom"), ours.summary["restarts"]) == ([], 0)
    assert ours.events("fit-finished")[0].data["micro_batch"] == 8


@pytest.mark.slow
def test_training_in_fragmented_memory_completes_in_micro_batches(work, memory):
    """45 MB suffice for a step in micro-batches, but not once the whole batch has fragmented them."""
    work.script("conv.py")
    ended = work.oomph("conv.py", env=memory(45))
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert "iterations 6" in ended.stdout
    asked = ended.events("restart-requested")  # whether the pieces are too small depends on the cores and the cache
    assert [event.data["micro_batch"] for event in asked] == [128 // 32, 1][: len(asked)]
    assert ended.summary["restarts"] == len(asked)
    assert ended.events("fit-started")[-1].attempt == len(asked) + 1
    assert ended.events("fit-finished")[-1].data["micro_batch"] < 128


@pytest.mark.slow
@pytest.mark.parametrize("jit", [[], pytest.param(["--jit"], marks=pytest.mark.slow)], ids=["graph", "xla"])
def test_sparse_gradients_sum_to_the_whole_batch_gradient(work, load, jit):
    work.script("sparse.py")
    assert work.plain("sparse.py", "plain.npz", *jit).returncode == 0
    ours = work.oomph("--micro-batch=13", "sparse.py", "ours.npz", *jit)
    assert ours.returncode == 0, ours.stderr[-3000:]
    assert [event.data["guard"] for event in ours.events("fit-started")] == ["exact"]
    plain, divided = load(work.folder / "plain.npz"), load(work.folder / "ours.npz")
    assert {value.dtype.name for value in plain.values()} == {"float64", "int64"}
    assert max(abs(divided[name] - plain[name]).max() for name in plain) <= TOLERANCE


REPORTED = """
import keras
import numpy as np
model = keras.Sequential([keras.layers.Dense(1024, activation="relu"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(np.ones((8192, 64), "float32"), np.ones(8192, "float32"), batch_size=8192, verbose=0)
model.predict(np.ones((32768, 64), "float32"), batch_size=32768, verbose=0)
"""


@pytest.mark.slow
def test_tensorflow_memory_reports_go_to_the_run_directory(work, memory):
    work.write(REPORTED, "reported.py")
    ours = work.oomph("reported.py", env={**memory(40), "TF_CPP_MIN_LOG_LEVEL": "0"})
    assert ours.returncode == 0, ours.stderr[-3000:]
    assert [event.data.get("during") for event in ours.events("recovered")] == [None, "predict"]
    reports = (ours.folder / "stderr" / "1-memory.log").read_text()
    assert reports.count("ran out of memory trying to allocate") >= 2
    assert "_allocator.cc" not in ours.stderr
    assert "RESOURCE_EXHAUSTED" not in ours.own
    (line,) = [line for line in ours.said if "report of the failed allocation" in line]
    assert line.endswith("/stderr/1-memory.log")
