"""`--deep`: a trial that crashes, hangs or fails is a finding, and later trials still run."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from oomph.doctor.deep import SilenceLimits, try_devices

TRIALS = ("list", "matmul", "xla")
CHILD = """
import json, os, sys, time

def say(**facts):
    print(json.dumps(facts), flush=True)

for name in ["import", *sys.argv[2:]]:
    say(begun=name)
    if name == os.environ.get("BREAK"):
        {break_}
    say(row=dict(trial=name, ok=name != os.environ.get("REFUSE"), detail="fine", seconds=0.1))
"""


@pytest.fixture
def trials(tmp_path, monkeypatch, healthy):
    """Run the trials with a child that fails in this way in one of them."""

    def run(break_: str = "pass", seconds: float = 60, count: int = 1, **environ: str):
        path = tmp_path / "child.py"
        path.write_text(CHILD.replace("{break_}", break_))
        monkeypatch.setattr("oomph.doctor.deep._SCRIPT", path)
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        import sys

        devices = healthy.driver.devices * count
        machine = replace(
            healthy,
            python=replace(healthy.python, executable=sys.executable),
            driver=replace(healthy.driver, devices=devices),
        )
        said: list[str] = []
        results = try_devices(machine, said.append, TRIALS, SilenceLimits(60, seconds))
        return [(result.check.name, result.finding.status, result.finding.message) for result in results], said

    return run


def names(results):
    return [(name.removeprefix("deep-"), status) for name, status, _ in results]


def test_every_trial_is_run_and_announced(trials):
    results, said = trials()
    assert names(results) == [("import", "pass"), ("list", "pass"), ("matmul", "pass"), ("xla", "pass")]
    assert said == ["GPU:0: import", "GPU:0: list", "GPU:0: matmul", "GPU:0: xla"]


def test_crash_in_a_trial_is_a_finding_and_later_trials_still_run(trials):
    results, _ = trials("os.kill(os.getpid(), 11)", BREAK="matmul")
    assert names(results) == [("import", "pass"), ("list", "pass"), ("matmul", "fail"), ("xla", "pass")]
    assert results[2][2] == "GPU:0 matmul: the process ended by SIGSEGV."


def test_hang_in_a_trial_is_a_finding_and_later_trials_still_run(trials):
    started = time.monotonic()
    results, _ = trials("time.sleep(60)", seconds=1, BREAK="matmul")
    assert names(results)[2:] == [("matmul", "fail"), ("xla", "pass")]
    assert "no answer within 1 s" in results[2][2]
    assert time.monotonic() - started < 20


def test_crash_at_import_stops_the_trials(trials):
    results, _ = trials("os.abort()", BREAK="import")
    assert names(results) == [("import", "fail")]


def test_failed_trial_is_a_finding(trials):
    results, _ = trials(REFUSE="list")
    assert names(results)[1] == ("list", "fail")


def test_two_gpus_are_tried_separately_and_then_together(trials):
    results, said = trials(count=2)
    assert [name for name, _ in names(results)].count("matmul") == 2
    assert names(results)[-1] == ("all-reduce", "pass")
    assert "GPU:1: matmul" in said


def test_nothing_is_tried_without_a_gpu(trials):
    results, _ = trials(count=0)
    assert names(results) == [("list", "skip")]
