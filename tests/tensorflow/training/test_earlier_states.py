"""What a process is told about the states that earlier attempts saved, and what it says only once."""

from __future__ import annotations

import os
import shutil

import pytest

from oomph.checkpoint.container import Position
from oomph.checkpoint.manifest import Meta
from oomph.checkpoint.store import CheckpointStore
from oomph.journal.events import CheckpointRefused, CheckpointSaved
from oomph.journal.journal import Journal, facts, read_journal
from oomph.protocol.handover import Guarding, Handover
from oomph.resume.training.fits import Fits
from oomph.resume.training.identity import FitIdentity
from oomph.script.session import Session

GONE = "the checkpoints, of 7 steps, are gone from the run directory: training starts from the beginning"


@pytest.fixture
def attempt(tmp_path, monkeypatch):
    """Begin an attempt in a run whose first attempt saved one checkpoint, and return its fits and what they say."""
    run_dir, said = tmp_path / "run", []
    run_dir.mkdir()
    store = CheckpointStore(run_dir / "checkpoints")
    store.open()
    store.draft_step(Position(0, 0, 7, 7)).complete(
        Meta(site="train.py:5", key="place-0", taken_at=1000.0), lambda writer: None
    )
    first = Journal(run_dir, 1, "script")
    first.write(CheckpointSaved(fit=0, steps=7))
    first.close()
    monkeypatch.setattr(Session, "say", lambda session, text: said.append(text))
    monkeypatch.setattr(Session, "warn", lambda session, text: said.append(text))
    begun = []

    def begin(number=2, execution=None, **guarding):
        handover = Handover("", str(run_dir), attempt=number, guarding=Guarding(**guarding))
        journal = Journal(run_dir, number, "script")
        session = Session(handover, journal, True, "script", os.getpid(), None, run_dir, execution=execution)
        begun.append(Fits(session))
        return begun[-1], said

    yield begin
    for fits in begun:
        fits.close()
        fits.session.journal.close()


@pytest.mark.parametrize(("since", "sites"), [(None, ["train.py:5"]), (999.0, ["train.py:5"]), (2000.0, [])])
def test_states_ignored_by_start_over_are_not_listed_as_interrupted(attempt, since, sites):
    fits, said = attempt(ignore_before=since)
    fits.store()
    assert (fits.interrupted_sites(), said) == (sites, [])


@pytest.mark.parametrize(
    ("resumes_edited", "edited", "is_known"), [(True, True, True), (False, True, False), (False, False, True)]
)
def test_edited_fit_resumes_only_if_the_run_allows_edits(attempt, resumes_edited, edited, is_known):
    fits, _ = attempt(resumes_edited=resumes_edited)
    identity = FitIdentity(0, "cell [2], line 1", "model", "place", 0)
    assert (fits.known_state(identity, lambda record: edited) is not None) == is_known


@pytest.mark.parametrize("is_folder_left", [True, False])
def test_missing_checkpoints_are_reported_once_with_their_steps(attempt, tmp_path, is_folder_left):
    shutil.rmtree(tmp_path / "run/checkpoints")
    if is_folder_left:
        (tmp_path / "run/checkpoints").mkdir()
    fits, said = attempt()
    fits.store()
    fits.store()
    (noted,) = facts(read_journal(tmp_path / "run"), CheckpointRefused)
    assert said == [GONE]
    assert (noted.name, noted.why) == ("", {"code": "checkpoints-gone", "steps": 7})


def test_missing_checkpoints_are_not_reported_at_a_first_attempt_or_in_a_notebook(attempt, tmp_path):
    shutil.rmtree(tmp_path / "run/checkpoints")
    for number, execution in ((1, None), (2, lambda: 3)):
        fits, said = attempt(number, execution)
        fits.store()
        shutil.rmtree(tmp_path / "run/checkpoints")
    assert said == []


def test_refused_checkpoint_is_not_reported_as_missing(attempt, tmp_path):
    (folder,) = (tmp_path / "run/checkpoints").iterdir()
    folder.rename(folder.with_name(f"refused-{folder.name}"))
    fits, said = attempt()
    fits.store()
    assert said == []


def test_report_with_changing_figures_is_made_once(attempt):
    fits, said = attempt()
    assert [fits.say_once(f"it takes {number} s", about="time") for number in (1, 2)] == [True, False]
    assert said == ["it takes 1 s"]
