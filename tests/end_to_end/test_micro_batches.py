"""Micro-batches of 13 out of 32, or of 7 on each of two replicas, give the same results as whole batches."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

TEXT = (Path(__file__).parent / "scripts" / "kinds.py").read_text()
CASES = re.findall(r'^    "(\w+)": ', TEXT, re.MULTILINE)
KERAS = Path(find_spec("keras").origin).parent
if "mean_with_sample_weight" in (KERAS / "src" / "losses" / "loss.py").read_text():  # not yet in Keras 3.5
    CASES += re.findall(r'CASES\["(\w+)"\]', TEXT)
APPROXIMATE = {"batch_normalization"}
REFUSED = {"negatives", "alternating", "average_of_weights"}
TOLERANCE = 1e-12


WAYS = {"graph": ([], 13), "jit": (["--jit"], 13), "mirrored": (["--mirrored"], 7)}


_SLOW = [pytest.mark.slow, pytest.mark.timeout(900)]
"""Each way trains every case twice, in the first test that needs it."""


@pytest.fixture(scope="module", params=[w if w == "graph" else pytest.param(w, marks=_SLOW) for w in WAYS])
def trained(request, shared):
    """Every case in kinds.py, plainly and in micro-batches: two processes for all the tests."""
    shared.script("kinds.py")
    words, size = WAYS[request.param]
    plain = shared.plain("kinds.py", f"{request.param}-plain.npz", *words)
    assert plain.returncode == 0, plain.stderr[-3000:]
    ours = shared.oomph(f"--micro-batch={size}", "kinds.py", f"{request.param}-ours.npz", *words, run=request.param)
    assert ours.returncode == 0, ours.stderr[-3000:]
    return shared.folder / f"{request.param}-plain.npz", shared.folder / f"{request.param}-ours.npz", ours


@pytest.mark.parametrize("case", [case for case in CASES if case not in APPROXIMATE])
def test_micro_batches_match_whole_batches(trained, load, case):
    plain, ours = (load(path) for path in trained[:2])
    names = [name for name in plain if name.startswith(f"{case}/")]
    assert len(names) > 5
    for name in names:
        assert plain[name].dtype.name in ("float64", "int64", "float32")
        scale = max(1.0, abs(plain[name]).max())
        assert abs(ours[name] - plain[name]).max() <= TOLERANCE * scale, name


def test_every_trained_weight_has_double_precision(trained, load):
    weights = {name: value for name, value in load(trained[0]).items() if re.search(r"/v\d\d$", name)}
    assert {value.dtype.name for value in weights.values() if value.ndim} == {"float64", "int64"}


def test_every_micro_batch_case_is_probed_and_labelled_correctly(trained):
    kinds = {}
    fitting = [case for case in CASES if case != "on_batches"]
    probed = {event.data["fit"]: event.data["kind"] for event in trained[2].events("probed") if "fit" in event.data}
    for event in trained[2].events("fit-started"):
        kinds[fitting[event.data["fit"]]] = probed.get(event.data["fit"], event.data["guard"])
    assert {case for case, kind in kinds.items() if kind == "approximate"} == APPROXIMATE
    assert {case for case, kind in kinds.items() if kind == "refused"} == REFUSED
    assert {kind for case, kind in kinds.items() if case not in APPROXIMATE | REFUSED} <= {"exact", "restart only"}


def test_micro_batches_change_batch_normalization_only_slightly(trained, load):
    plain, ours = (load(path) for path in trained[:2])
    differences = [abs(ours[n] - plain[n]).max() for n in plain if n.startswith("batch_normalization/v")]
    assert max(differences) > 1e-6, "a label that says nothing"
    assert max(differences) < 1.0


def test_run_is_labelled_by_its_least_exact_fit(trained):
    assert trained[2].summary["exactness"] == "approximate"
    assert trained[2].events("guard-failed") == []
