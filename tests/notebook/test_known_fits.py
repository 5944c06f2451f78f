"""Which saved state belongs to a fit that is about to start, in kernels whose cells ran in any order."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from oomph.checkpoint.container import Position
from oomph.checkpoint.manifest import Meta
from oomph.checkpoint.store import Record
from oomph.resume.training.known_fits import state_of

MODEL, OTHER_MODEL = "layers 16, 2", "layers 32, 2"


@dataclass
class Fit:
    """A fit that is about to start, with what identifies it."""

    place: str
    ordinal: int = 0
    occurrence: int = 0
    cell: str | None = ""
    fingerprint: str = MODEL

    @property
    def key(self):
        return f"{self.place}-{self.occurrence}"

    @property
    def outline(self):
        return self.place.rstrip("0123456789")  # "fit(5)" and "fit(7)" differ in a constant

    def saved(self, finished=False, number=None):
        meta = Meta(key=self.key, outline=self.outline, cell=self.cell, fingerprint=self.fingerprint)
        return Record(Path(), Position(self.ordinal if number is None else number), meta, finished)


def of(fit, *records, begun=(), edited=()):
    """Return the number of the saved fit that continues as `fit`, or None if it trains from the beginning."""
    fingerprints = {r.position.fit: r.meta.fingerprint for r in records}
    known = {number: fingerprints.get(number, MODEL) for number in begun}
    found = state_of(fit, records, known, lambda r: r in edited)
    return None if found is None else found.position.fit


def test_fit_of_an_unchanged_cell_continues():
    assert of(Fit("fit5"), Fit("fit5").saved()) == 0
    assert of(Fit("fit5", cell="a"), Fit("fit5", cell="a").saved()) == 0


def test_fits_in_a_loop_are_distinguished_by_their_turn():
    folds = [Fit("fit5", n, n, "a").saved(finished=n < 2) for n in range(3)]
    begun: list[int] = []
    for turn in range(3):
        assert of(Fit("fit5", turn, turn, "a"), *folds, begun=begun) == turn
        begun.append(turn)
    assert of(Fit("fit5", 3, 3, "a"), *folds, begun=begun) is None


@pytest.mark.parametrize("cell", ["", "a"])
def test_cell_run_again_in_the_same_kernel_starts_a_new_fit(cell):
    first = Fit("fit5", cell=cell)
    assert of(Fit("fit5", 1, 1, cell), first.saved(finished=True), begun=[0]) is None


def test_cell_run_again_does_not_take_the_state_of_another_cell_with_the_same_statement():
    first, second = Fit("fit5", 0, 0, "a").saved(finished=True), Fit("fit5", 1, 1, "b").saved()
    assert of(Fit("fit5", 0, 0, "a"), first, second) == 0
    assert of(Fit("fit5", 1, 1, "a"), first, second, begun=[0]) is None
    assert of(Fit("fit5", 1, 1, "b"), first, second, begun=[0]) == 1


def test_second_of_two_equal_cells_gets_its_own_state_when_run_first():
    first, second = Fit("fit5", 0, 0, "a").saved(finished=True), Fit("fit5", 1, 1, "b").saved()
    assert of(Fit("fit5", 0, 0, "b"), first, second) == 1


def test_cell_ids_are_ignored_if_none_matches():
    assert of(Fit("fit5", cell="renewed"), Fit("fit5", cell="a").saved()) == 0
    assert of(Fit("fit5", cell=""), Fit("fit5", cell="a").saved()) == 0
    assert of(Fit("fit5", cell="a"), Fit("fit5", cell="").saved()) == 0


# -- edited statements ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cell", ["", "a"])
def test_fit_with_a_changed_constant_continues(cell):
    assert of(Fit("fit7", cell=cell), Fit("fit5", cell=cell).saved()) == 0
    assert of(Fit("fit7", 3, cell=cell), Fit("fit5", cell=cell).saved()) == 0


def test_only_an_interrupted_fit_rewritten_in_its_own_cell_continues():
    assert of(Fit("history = fit7", cell="a"), Fit("fit5", cell="a").saved()) == 0
    assert of(Fit("history = fit7", cell="a"), Fit("fit5", cell="a").saved(finished=True)) is None
    assert of(Fit("history = fit7", cell="b"), Fit("fit5", cell="a").saved()) is None
    assert of(Fit("history = fit7"), Fit("fit5").saved()) is None


def test_new_cell_does_not_take_the_state_of_a_cell_that_differs_in_a_constant():
    assert of(Fit("fit7", cell="b"), Fit("fit5", cell="a").saved()) is None


def test_edited_fit_of_another_model_starts_over():
    assert of(Fit("fit7", fingerprint=OTHER_MODEL), Fit("fit5").saved()) is None


def test_edited_fits_of_several_models_are_matched_by_model():
    saved = [Fit("fit5", 0, fingerprint=MODEL).saved(), Fit("fit5", 1, 1, fingerprint=OTHER_MODEL).saved()]
    assert of(Fit("fit7", 0, fingerprint=OTHER_MODEL), *saved) == 1
    assert of(Fit("fit7", 1, fingerprint=MODEL), *saved) == 0


def test_edited_fits_of_the_same_model_are_matched_by_turn_or_not_at_all():
    saved = [Fit("fit5", 0).saved(), Fit("fit6", 1).saved()]
    assert of(Fit("fit7", 0), *saved) == 0
    assert of(Fit("fit7", 1), *saved, begun=[5]) == 1
    assert of(Fit("fit7", 2), *saved) is None


def test_unedited_fit_does_not_take_the_state_of_one_that_differs_in_a_constant():
    first, second = Fit("fit5", 0).saved(finished=True), Fit("fit9", 1).saved()
    assert of(Fit("fit5", 1, 1), first, second, begun=[0]) is None
    assert of(Fit("fit9", 1), first, second, begun=[0]) == 1


# -- states from before later training --------------------------------------------------------------------------------


def test_finished_fit_is_not_returned_once_its_model_has_trained_further():
    first, again, last = (
        Fit("fit5", 0).saved(finished=True),
        Fit("fit5", 1, 1).saved(finished=True),
        Fit("g", 2).saved(),
    )
    assert of(Fit("fit5", 1, 1), first, again, last, begun=[0]) == 1, "as in the kernel that died"
    assert of(Fit("fit5", 2, 1), first, again, last, begun=[0, 2]) is None, "G has resumed after it"
    assert of(Fit("fit5", 1, 0), first, begun=[7]) is None, "a new fit has trained a model like it"


def test_finished_fits_of_different_models_are_returned_in_any_order():
    first, second = Fit("a", 0).saved(finished=True), Fit("b", 1, fingerprint=OTHER_MODEL).saved()
    assert of(Fit("a", 1), first, second, begun=[1]) == 0


def test_interrupted_fit_resumes_after_a_new_fit_but_not_after_a_later_saved_one():
    first, second = Fit("a", 0).saved(), Fit("b", 1).saved()
    assert of(Fit("a", 1), first, second, begun=[7]) == 0
    assert of(Fit("a", 1), first, second, begun=[1]) is None


# -- scripts ----------------------------------------------------------------------------------------------------------


def test_script_fits_are_matched_by_key_or_after_an_edit_by_outline_and_turn():
    known = Fit("fit5", cell=None).saved()
    assert of(Fit("fit5", cell=None), known, begun=[0]) == 0
    assert of(Fit("fit7", cell=None), known, edited=[known]) == 0
    assert of(Fit("fit7", cell=None), known) is None
    assert of(Fit("fit7", 1, cell=None), known, edited=[known]) is None
