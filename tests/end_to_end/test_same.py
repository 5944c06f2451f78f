"""A run in which nothing happens: the results are bit-identical to plain Keras."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

_TEXT = (Path(__file__).parent / "scripts" / "same.py").read_text()
CASES = re.findall(r'^    "(\w+)": ', _TEXT, re.MULTILINE)
TO_BE_PROBED = {"own_step", "eager_counts", "eager_unbuilt"}


@pytest.fixture(scope="module")
def trained(shared):
    """Every case in same.py, trained plainly and under oomph: two processes for all the tests."""
    shared.script("same.py")
    plain = shared.plain("same.py", "plain.npz")
    assert plain.returncode == 0, plain.stderr[-3000:]
    ours = shared.oomph("same.py", "ours.npz")
    assert ours.returncode == 0, ours.stderr[-3000:]
    return shared, plain, ours


@pytest.mark.parametrize("case", CASES)
def test_weights_slots_metrics_and_history_equal_plain_keras(trained, same_bits, case):
    shared, _, _ = trained
    same_bits(shared.folder / "ours.npz", shared.folder / "plain.npz", only=f"{case}/")


def test_end_of_unknown_length_data_counts_as_a_step_as_in_keras(trained, load):
    """Without XLA, an epoch's last call finds no batch but has already incremented the optimizer's iterations."""
    shared, _, _ = trained
    ours = load(shared.folder / "ours.npz")
    (counter,) = [n for n, value in ours.items() if n.startswith("without_a_length_True/v") and (value == 9).all()]
    assert ours[counter.replace("True", "False")] == 12, "3 epochs of 3 batches, and 3 ends"


def without_retracing(stderr: str) -> str:
    """With older Keras, TensorFlow warns that many models are many traces of one function; ours are distinguished."""
    return "".join(line for line in stderr.splitlines(True) if "triggered tf.function retracing" not in line)


def test_script_output_matches_plain_python(trained):
    _, plain, ours = trained
    assert ours.stdout == plain.stdout
    assert without_retracing(ours.own) == without_retracing(plain.stderr)


def test_every_fit_is_guarded(trained):
    _, _, ours = trained
    fits = {event.data["site"]: event.data["guard"] for event in ours.events("fit-started")}
    assert ours.events("guard-failed") == []
    assert len(ours.events("fit-started")) == len([case for case in CASES if "train_on_batch" not in case])
    assert len(ours.events("fit-finished")) == len(ours.events("fit-started"))
    assert set(fits.values()) <= {"exact", "approximate", "probed before a batch is divided", "restart only"}


def test_each_fit_gets_its_own_models_guard(trained):
    _, _, ours = trained
    fitting = [case for case in CASES if "train_on_batch" not in case]
    guards = dict(zip(fitting, [event.data["guard"] for event in ours.events("fit-started")], strict=True))
    (installed,) = ours.events("guard-installed")
    older = tuple(map(int, installed.data["keras"].split(".")[:2])) < (3, 8)
    restarted = {"several_steps"} if older else set()
    assert {case for case, guard in guards.items() if guard == "restart only"} == restarted
    assert {case for case, guard in guards.items() if guard.startswith("probed")} == TO_BE_PROBED
    assert {case for case, guard in guards.items() if guard == "approximate"} == {"seeing_False", "seeing_True"}


def test_summary_of_a_run_without_faults_reports_none(trained):
    _, _, ours = trained
    summary = ours.summary
    assert (summary["faults"], summary["recoveries"], summary["restarts"]) == ({}, 0, 0)
    assert (summary["steps_repeated"], summary["exactness"], summary["micro_batch"]) == (0, "exact", None)
    assert summary["steps"] == sum(event.data["steps"] for event in ours.events("fit-finished"))
