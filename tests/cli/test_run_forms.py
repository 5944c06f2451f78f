"""A run has the same forms in every verb that takes one: its folder, its name in `.oomph`, a file of it, or nothing."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from oomph import cli
from oomph.journal.events import AttemptStarted
from oomph.journal.journal import Journal
from oomph.run.directory.run_directory import FAILED, RunDirectory, RunRecord
from oomph.run.report.summary import summarise
from oomph.run.supervisor import launch as launching
from oomph.run.supervisor.closing import RunOutcome
from oomph.run.supervisor.launch import Request

NAME = "20261130-train"
PATH = f".oomph/runs/{NAME}"
FORMS = (PATH, NAME, f"{PATH}/run.json", f"{PATH}/journal/1-0-supervisor.jsonl", f"{PATH}/journal", f"./{PATH}/")
VERBS = {
    "explain": ["explain"],
    "decisions": ["explain", "--decisions"],
    "report": ["report", "--format", "md"],
    "watch": ["watch", "--once"],
    "runs": ["runs"],
    "prune": ["runs", "prune", "--dry-run"],
}


@pytest.fixture(autouse=True)
def run_dir(tmp_path, monkeypatch):
    """Create one failed run in a folder, and enter the folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    monkeypatch.setattr("sys.stdin", None)
    record = RunRecord(("train.py",), "python", str(tmp_path), "2026-11-30T00:00:00+0000", FAILED, attempts=1)
    run = RunDirectory.create(Path(PATH), record)
    journal = Journal(run.path, 1, "supervisor")
    journal.write(AttemptStarted())
    journal.close()
    run.close()
    return run.path


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_takes_every_form_of_a_run(capfd, verb, form):
    assert cli.main([*VERBS[verb], form]) == 0
    shown = capfd.readouterr().out
    assert NAME in shown or "train.py" in shown


@pytest.mark.parametrize("form", FORMS)
def test_resume_takes_every_form_of_a_run(monkeypatch, form):
    asked: list[Request] = []
    monkeypatch.setattr(launching, "launch", lambda request: asked.append(request) or RunOutcome(0, summarise([], 0)))
    Path("train.py").touch()
    assert cli.main(["run", f"--resume={form}", "train.py"]) == 0
    assert Path(asked[0].resume).resolve() == Path(PATH).resolve()


def test_resume_keeps_a_folder_that_does_not_exist_yet(monkeypatch):
    """A scheduler's template names it at the first start, too."""
    asked: list[Request] = []
    monkeypatch.setattr(launching, "launch", lambda request: asked.append(request) or RunOutcome(0, summarise([], 0)))
    cli.main(["run", "--resume=later", "train.py"])
    assert asked[0].resume == "later"


@pytest.mark.parametrize("verb", ["explain", "decisions", "report", "watch"])
def test_without_a_run_the_newest_is_shown(capfd, verb):
    assert cli.main(VERBS[verb]) == 0
    shown = capfd.readouterr().out
    assert NAME in shown or "train.py" in shown


def test_piped_log_has_precedence_over_the_newest_run(monkeypatch, capfd):
    monkeypatch.setattr("oomph.cli.explain.is_piped", lambda: True)
    piped = io.TextIOWrapper(io.BytesIO(b"all is well\n"))
    monkeypatch.setattr("sys.stdin", piped)
    assert cli.main(["explain"]) == 0
    assert "standard input" in capfd.readouterr().out


@pytest.mark.parametrize("verb", ["report", "watch"])
def test_mistyped_name_gets_a_suggestion(capfd, verb):
    assert cli.main([*VERBS[verb], NAME[:-1]]) == 3
    assert capfd.readouterr().err == f"oomph: there is no run '{NAME[:-1]}': did you mean {NAME}?\n"


def test_what_exists_here_has_precedence_over_the_name_of_a_run(capfd):
    Path(NAME).write_text("all is well\n")
    assert cli.main(["explain", NAME]) == 0
    assert capfd.readouterr().out.startswith(f"{NAME}: no fault found")
    assert cli.main(["report", NAME]) == 3
    assert capfd.readouterr().err == f"oomph: {NAME} is a file: name a run directory\n"


@pytest.mark.parametrize("word", ["../20261130-train", "..", "a\0b", "x" * 5000])
def test_a_name_never_leads_out_of_the_folder_of_runs(capfd, word):
    assert cli.main(["report", word]) == 3
    assert capfd.readouterr().err.count("\n") == 1
