"""Steps leave witnesses, against which a resumed fit's steps are compared."""

from __future__ import annotations

import types
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from oomph.checkpoint.witness import END, EPOCH, STEP, WitnessBoard
from oomph.exact_step.step.step_protocol import Taken
from oomph.journal.events import RepeatCompared
from oomph.journal.journal import Journal, read_journal
from oomph.keras_bridge import fingerprints
from oomph.protocol.coverage import Coverage
from oomph.protocol.reasons import because, reason_from
from oomph.resume.fit.running import FitProof
from oomph.resume.training import fits
from oomph.resume.training.identity import FitIdentity
from oomph.resume.training.proof import _repeated


class Fit:
    """As much of a fit as its proof needs."""

    def __init__(self, model):
        self.model, self.identity = model, FitIdentity(0, "train.py:5", "f", "place")
        self.said, self.notes = [], []
        self.fits = types.SimpleNamespace(say=self.said.append, warn=self.said.append)
        self.lost = []

    def note_here(self, fact):
        self.notes.append(fact)


@pytest.fixture
def attempt(tmp_path, small_model):
    numbers = iter(range(1, 100))

    def begin():
        fit = Fit(small_model())
        return fit, FitProof(fit, WitnessBoard(tmp_path, next(numbers)))

    return begin


def taken(number, loss=None):
    logs = {"loss": np.float32(loss if loss is not None else 1 / (number + 1))}
    return Taken(logs, fingerprints.of_tensors([np.arange(number, number + 4.0)]))


def test_a_resumed_fit_that_repeats_its_steps_is_verified(attempt):
    _, first = attempt()
    for number in range(6):
        first.step(0, number, taken(number))
    fit, again = attempt()
    again.compare_from(0, 4)
    again.step(0, 4, taken(4))
    assert isinstance(fit.notes[-1], RepeatCompared)
    assert (fit.notes[-1].steps, fit.notes[-1].equal) == (1, True)
    again.step(0, 5, taken(5))
    again.step(0, 6, taken(6))
    assert fit.said == ["verified: 2 repeated steps gave the same results"]
    assert [each.steps for each in fit.notes] == [1, 2]


def test_differing_result_is_reported_once_with_the_lost_state(attempt):
    _, first = attempt()
    for number in range(6):
        first.step(0, number, taken(number))
    fit, again = attempt()
    fit.lost = [because("in-words", text="a counter")]
    again.compare_from(0, 4)
    again.step(0, 4, taken(4, loss=0.5))
    again.step(0, 5, taken(5, loss=0.5))
    (note,) = fit.notes
    assert not note.equal
    assert note.cause["code"] == "other-result", "the event of the resume has what was lost"
    assert len(fit.said) == 1
    assert fit.said[0].startswith("not equal to the earlier attempt")
    assert fit.said[0].endswith("(not restored: a counter)")


def test_proof_without_a_witness_reports_nothing(attempt):
    fit, proof = attempt()
    proof.compare_from(0, 0)
    proof.step(0, 0, taken(0))
    proof.end(0, 1)
    assert (fit.notes, fit.said) == ([], [])


def test_finished_fit_is_not_announced_as_repeating_steps(attempt):
    first_fit, first = attempt()
    first._is_affordable = lambda: True
    first.end(2, 0)
    for number in range(6):
        first.step(2, number, taken(number))
    fit, again = attempt()
    for one, other in zip(fit.model.variables, first_fit.model.variables, strict=True):
        one.assign(other)
    again.compare_from(2, 0)
    again.end(2, 0)
    assert {(each.epochs, each.equal) for each in fit.notes} == {(1, True)}
    assert fit.said == []


def test_a_differing_state_is_reported_at_the_end_of_its_epoch(attempt):
    first_fit, first = attempt()
    first._is_affordable = lambda: True
    first.step(0, 0, taken(0))
    first.epoch_end(0, 1)
    fit, again = attempt()
    again.compare_from(0, 0)
    for one, other in zip(fit.model.variables, first_fit.model.variables, strict=True):
        one.assign(other)
    fit.model.variables[0].assign(fit.model.variables[0] + 1)
    again.step(0, 0, taken(0))
    again.epoch_end(0, 1)
    assert str(reason_from(fit.notes[-1].cause)) == "the state differs after epoch 1"


def test_fingerprint_of_the_state_is_recorded_at_the_end_of_a_fit(attempt, tmp_path):
    _, proof = attempt()
    proof._is_affordable = lambda: True
    proof.end(2, 3)
    (witness,) = WitnessBoard(tmp_path, 9).before
    assert (witness.kind, witness.epoch, witness.step, witness.result) == (END, 2, 3, proof.last_state)
    assert proof.last_state != 0


def test_a_state_too_slow_to_fingerprint_is_skipped(attempt, tmp_path):
    _, proof = attempt()
    proof._state().seconds = 1.0
    proof.epoch_end(0, 1)
    proof.end(0, 1)
    assert WitnessBoard(tmp_path, 9).before == []


def test_every_step_records_its_loss_but_only_some_record_random_state(attempt, tmp_path):
    _, proof = attempt()
    for number in range(6):
        proof.step(0, number, taken(number))
    proof.checkpointed()
    proof.step(0, 6, taken(6))
    found = WitnessBoard(tmp_path, 9).before
    assert [w.kind for w in found] == [STEP] * 7
    assert [bool(w.rate and w.random) for w in found] == [True] * 4 + [False, False, True]
    assert all(w.loss and w.result and w.batch for w in found)


@pytest.mark.parametrize("logs", [{}, {"loss": np.nan}, {"loss": "x"}, {"accuracy": 1.0}, None, np.float32(2.0)])
def test_logs_of_any_kind_are_accepted(attempt, logs):
    _, proof = attempt()
    proof.step(0, 0, Taken(logs, None))


def test_proof_without_a_board_does_nothing(small_model):
    fit = Fit(small_model())
    proof = FitProof(fit, None)
    proof.compare_from(0, 0)
    proof.step(0, 0, taken(0))
    proof.epoch_end(0, 0)
    proof.end(0, 0)
    assert (fit.notes, proof.last_state, EPOCH) == ([], 0, 2)


def test_failure_to_write_witnesses_is_recorded_in_the_journal(tmp_path: Path) -> None:
    (tmp_path / "witness").mkdir()
    journal = Journal(tmp_path, 1, "script")
    session = SimpleNamespace(
        is_owner_now=lambda: True, run_dir=tmp_path, handover=SimpleNamespace(attempt=1), journal=journal
    )
    assert fits._witness_board(session) is None
    (event,) = read_journal(tmp_path)
    assert (event.name, event.data["reason"]) == ("no-witnesses", "Is a directory")


@pytest.mark.parametrize(
    ("coverage", "is_lost", "is_replayed", "words"),
    [
        (Coverage(182, 0, 182, 182), False, False, "verified: 182 repeated steps gave the same results"),
        (Coverage(182, 0, 182, 182), False, True, "replayed: 182 repeated steps gave the same results"),
        (
            Coverage(182, 0, 182, 182),
            True,
            False,
            "182 repeated steps gave the same results, but not everything was restored",
        ),
        (Coverage(30, 0, 280, 286), False, False, "verified: 30 of 286 repeated steps gave the same results"),
        (
            Coverage(3, 0, 3, 286),
            False,
            False,
            "unverified: 3 of 286 repeated steps gave the same results; the steps after them were not compared",
        ),
    ],
)
def test_repeated_steps_are_announced_with_the_expected_result(
    coverage: Coverage, is_lost: bool, is_replayed: bool, words: str
) -> None:
    assert _repeated(coverage, 0.0, is_lost, is_replayed) == words


def test_only_a_sample_of_repeated_steps_is_compared_on_a_gpu(attempt, monkeypatch):
    def steps(proof, last):
        proof._on_host = False
        for number in range(last):
            proof.step(0, number, taken(number))

    _, first = attempt()
    steps(first, 286)
    fit, again = attempt()
    again.compare_from(0, 0)
    steps(again, 286)
    again.end(0, 286)
    told, *_ = reversed(fit.notes)
    assert told.repeated == 286
    assert 286 * 8 / 9 - 1 <= told.covered <= 286
    assert 20 < told.steps < 60, "reading every step would make the training wait for the device"
    assert fit.said == [f"verified: {told.steps} of 286 repeated steps gave the same results"]


def test_only_steps_examined_by_the_earlier_attempt_are_compared(attempt):
    _, first = attempt()
    for number in range(40):
        first._on_host = number > 25
        first.step(0, number, taken(number))
    fit, again = attempt()
    again._on_host = False
    again.compare_from(0, 20)
    for number in range(20, 40):
        again.step(0, number, taken(number))
    again.end(0, 40)
    assert (fit.notes[-1].steps, fit.notes[-1].covered, fit.notes[-1].repeated) == (16, 20, 20)


def test_a_checkpoint_records_how_many_repeated_steps_were_compared(attempt):
    _, first = attempt()
    for number in range(9):
        first.step(0, number, taken(number))
    fit, again = attempt()
    again.compare_from(0, 0)
    for number in range(5):
        again.step(0, number, taken(number))
    again.checkpointed()
    assert (fit.notes[-1].covered, fit.notes[-1].repeated) == (5, 9)
    assert fit.said == []


def test_every_step_of_an_execution_is_counted(attempt):
    _, first = attempt()
    for number in range(0, 40, 10):
        first.step(0, number, taken(number), count=10)
    fit, again = attempt()
    again.compare_from(0, 10)
    for number in range(10, 40, 10):
        again.step(0, number, taken(number), count=10)
    assert fit.said == ["verified: 30 repeated steps gave the same results"]
    assert (fit.notes[-1].covered, fit.notes[-1].repeated) == (30, 30)
