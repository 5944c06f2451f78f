"""The runs of one rehearsal start an unseeded script from the same random numbers: their losses can be compared."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from oomph.journal.journal import Event
from oomph.protocol.injection import Injection
from oomph.protocol.reasons import because
from oomph.rehearse import rehearse as module
from oomph.rehearse.judge import SURVIVED, FaultVerdict, Rehearsed
from oomph.rehearse.rehearse import RehearsalPlan, Report, rehearse
from oomph.rehearse.report import as_text


def test_every_rehearsal_run_gets_the_entropy_of_the_undisturbed_run(tmp_path, monkeypatch):
    given = []

    def run(plan, folder, injection, limit):
        given.append(injection.entropy)
        path = folder / (injection.fault or "undisturbed")
        path.mkdir(parents=True)
        record = {
            "schema": 1,
            "command": ["a.py"],
            "python": "p",
            "cwd": "/",
            "created": "",
            "status": "finished",
            "attempts": 1,
            "host": "h",
            "options": [],
            "entropy": "ab12ab12ab12ab12ab12ab12ab12ab12",
        }
        (path / "run.json").write_text(json.dumps(record))
        return Rehearsed(0, 1.0, {"steps": 40}, [Event.named("rehearsal-ended", {"state": "a", "loss": 0.5})])

    monkeypatch.setattr(module, "_run", run)
    rehearse(RehearsalPlan(("a.py",), ("kill", "abort")), str(tmp_path / "kept"), lambda line: None)
    assert given == ["", "ab12ab12ab12ab12ab12ab12ab12ab12", "ab12ab12ab12ab12ab12ab12ab12ab12"]


def test_runs_given_the_same_entropy_draw_the_same_numbers(tmp_path):
    (tmp_path / "train.py").write_text("import random; print(random.random())")
    drawn = []
    for name in ("one", "two"):
        environ = {**os.environ, **Injection("", 0, entropy="ab12ab12ab12ab12ab12ab12ab12ab12").to_environment()}
        words = [sys.executable, "-m", "oomph", "run", f"--run-dir={name}", "train.py"]
        done = subprocess.run(words, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=60)
        drawn.append(done.stdout)
        assert json.loads((tmp_path / name / "run.json").read_text())["entropy"] == "ab12ab12ab12ab12ab12ab12ab12ab12"
    assert drawn[0] == drawn[1] != ""


@pytest.mark.parametrize(("result", "told"), [("loss 1.5, undisturbed 1.6", 1), ("the same bits", 0)])
def test_losses_that_differ_because_no_seed_was_set_are_explained(result, told):
    reason = because("order-unseeded")
    oom = FaultVerdict("oom", SURVIVED, "", result=result)
    kill = FaultVerdict("kill", SURVIVED, "", restarts=1, result=result, label="not-equal", label_reasons=(reason,))
    text = " ".join("\n".join(as_text(Report(Rehearsed(0, 1.0, {"steps": 40}, []), 20, (oom, kill)))).split())
    assert text.count(f"losses differ from run to run even without a fault: {reason}") == told
