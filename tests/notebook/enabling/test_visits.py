"""The numbers of fits at one place: a script counts calls, a notebook tells a rerun cell from a loop."""

from __future__ import annotations

import pytest

from oomph.resume.training.visits import Visit, Visits

PLACE = "a place"


class Notebook:
    """Cells that run one after another, each with one or more fits at the same place."""

    def __init__(self, left: tuple[int, ...] = ()) -> None:
        self.count = 0
        self.visits = Visits(lambda: self.count)
        self.left, self.is_recovering = left, True

    def run(self, fits: int = 1, finishes: bool = True) -> list[Visit]:
        """Run the cell and return its visits."""
        self.count += 1
        found = []
        for _ in range(fits):
            found.append(self.visits.next(PLACE, self.is_recovering, lambda place, number: number in self.left))
            if finishes:
                self.visits.finish(PLACE, found[-1].number)
        return found


def test_calls_in_a_script_are_numbered():
    visits = Visits(None)
    numbers = [visits.next(PLACE, True, lambda place, number: True).number for _ in range(3)]
    assert numbers == [0, 1, 2]
    assert visits.next("elsewhere", True, lambda place, number: True) == Visit(0)


def test_cell_that_runs_again_trains_anew():
    notebook = Notebook()
    assert [notebook.run(), notebook.run()] == [[Visit(0)], [Visit(1, is_anew=True)]]


def test_loop_in_a_dead_kernels_cell_returns_all_its_results_once():
    notebook = Notebook(left=(0, 1, 2))
    assert notebook.run(fits=3) == [Visit(0), Visit(1), Visit(2)]
    assert notebook.run(fits=2) == [Visit(3, is_anew=True), Visit(4, is_anew=True)]


def test_second_run_of_a_cell_does_not_return_a_result_of_the_dead_kernel():
    notebook = Notebook(left=(0, 1))
    assert [notebook.run(), notebook.run()] == [[Visit(0)], [Visit(2, is_anew=True)]]


def test_second_run_replaces_an_unfinished_one():
    notebook = Notebook()
    assert [notebook.run(finishes=False), notebook.run()] == [[Visit(0)], [Visit(0, is_anew=True)]]
    assert notebook.run() == [Visit(1, is_anew=True)]


def test_no_earlier_result_is_returned_after_the_recovery():
    notebook = Notebook(left=(0,))
    notebook.is_recovering = False
    assert notebook.run() == [Visit(1)]


@pytest.mark.parametrize("runs", [1, 2])
def test_refused_fit_may_be_tried_again(runs):
    notebook = Notebook()
    for _ in range(runs):
        assert notebook.run(finishes=False) == [Visit(0)]
        notebook.visits.give_back(PLACE)
    assert notebook.run() == [Visit(0)]


def test_cell_with_the_same_statement_is_not_taken_for_a_rerun():
    executions = iter(range(1, 9))
    visits = Visits(lambda: next(executions))

    def run(cell, left=()):
        found = visits.next(PLACE, True, lambda place, number: number in left, cell)
        visits.finish(PLACE, found.number)
        return found

    assert run("a") == Visit(0)
    assert run("a", left=(1,)) == Visit(2, is_anew=True), "the fit of the other cell, which may still resume"
    assert run("b", left=(1,)).is_anew is False
    assert run("b").is_anew is True


def test_interrupted_fit_of_a_second_cell_with_the_same_text_resumes():
    executions, left = iter(range(1, 9)), {1}
    visits = Visits(lambda: next(executions))

    def run():
        found = visits.next(PLACE, True, lambda place, number: number in {0, 1}, "text", lambda place, n: n in left)
        visits.finish(PLACE, found.number)
        left.discard(found.number)
        return found

    assert [run(), run()] == [Visit(0), Visit(1)]
    assert run() == Visit(2, is_anew=True)
