"""The snapshot in a run's journal: taken at the start, and used by `oomph explain`."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from oomph.cli import main
from oomph.doctor.recorded import behind, recorded
from oomph.journal.events import AttemptEnded, MachineSeen
from oomph.journal.journal import Journal
from oomph.process.command import Command
from oomph.run.supervisor.settings import look


@pytest.fixture
def run(tmp_path, healthy):
    """Create a run that started on a machine whose NVML and driver have different versions."""
    nvml = replace(healthy.nvml, init=18, error="Driver/library version mismatch", devices=())
    snapshot = replace(healthy, nvml=nvml, environment={"TF_FORCE_GPU_ALLOW_GROWTH": "yes"})
    journal = Journal(tmp_path, 1, "supervisor")
    journal.write(MachineSeen(snapshot=snapshot.as_document(), repairs={}))
    journal.write(AttemptEnded(returncode=0, seconds=1.0, steps=0, saved=0, oom_kills=0))
    journal.close()
    return tmp_path


def test_recorded_warnings_show_only_with_their_fault_but_failures_always_do(run):
    assert [result.check.name for result in behind(run, [])] == ["nvml"]
    assert [result.check.name for result in behind(run, ["device-oom-other-process"])] == ["nvml", "gpu-growth"]


def test_explain_shows_failed_machine_checks_of_a_run(run, capsys):
    assert main(["explain", str(run)]) == 0
    assert "The machine when the run started:\nFAIL  nvml (DOC204): nvmlInit returns 18" in capsys.readouterr().out
    assert main(["explain", str(run), "--json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)["machine"]
    assert (entry["name"], entry["status"]) == ("nvml", "fail")


def test_missing_or_unreadable_snapshot_adds_nothing(tmp_path):
    assert recorded(tmp_path) is None
    journal = Journal(tmp_path, 1, "supervisor")
    journal.write(MachineSeen(snapshot={"schema": 99}))
    journal.close()
    assert behind(tmp_path, []) == ()


def test_machine_is_examined_with_the_scripts_python(monkeypatch):
    asked: list[str] = []

    def observe(python: str, **options: object) -> None:
        asked.append(python)
        raise RuntimeError("enough")

    monkeypatch.setattr("oomph.doctor.observe.observe", observe)
    machine = look(Command(("train.py",)), "/env/bin/python")
    assert machine.remarks == ("the machine could not be examined: RuntimeError: enough",)
    assert machine.snapshot is None
    look(Command(("--", "env", "A=1", "/bin/sh", "x.sh")), "/env/bin/python")
    assert asked == ["/env/bin/python"], "a command that may choose any Python is not guessed at"
