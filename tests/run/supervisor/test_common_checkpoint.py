"""Several workers resume from the newest checkpoint that all of them have."""

from __future__ import annotations

from pathlib import Path

from oomph.run.supervisor.common_checkpoint import ahead, saved_in


def _saved(tmp_path: Path, worker: int, *names: str) -> dict[tuple[str, ...], str]:
    folder = tmp_path / str(worker)
    for name in names:
        (folder / name).mkdir(parents=True)
    return saved_in(folder)


def test_checkpoint_that_another_worker_lacks_is_not_used(tmp_path: Path) -> None:
    both = "step-000001-fit0-epoch0-step10"
    first = _saved(tmp_path, 0, both, "step-000002-fit0-epoch0-step20")
    assert ahead([first, _saved(tmp_path, 1, both)]) == [["step-000002-fit0-epoch0-step20"], []]


def test_position_counts_and_not_the_number_of_the_checkpoint(tmp_path: Path) -> None:
    first = _saved(tmp_path, 0, "step-000007-fit0-epoch0-step10")
    assert ahead([first, _saved(tmp_path, 1, "step-000003-fit0-epoch0-step10")]) == [[], []]


def test_older_checkpoints_stay_where_they_are(tmp_path: Path) -> None:
    first = _saved(tmp_path, 0, "step-000001-fit0-epoch0-step10", "step-000002-fit0-epoch0-step20")
    second = _saved(tmp_path, 1, "step-000002-fit0-epoch0-step20", "step-000003-fit0-epoch0-step30")
    assert ahead([first, second]) == [[], ["step-000003-fit0-epoch0-step30"]]


def test_worker_without_checkpoints_makes_all_start_over(tmp_path: Path) -> None:
    first = _saved(tmp_path, 0, "step-000001-fit0-epoch0-step10", "finished-fit0")
    assert ahead([first, saved_in(tmp_path / "nothing")]) == [["step-000001-fit0-epoch0-step10", "finished-fit0"], []]


def test_fit_counts_as_finished_only_if_all_have_finished_it(tmp_path: Path) -> None:
    first = _saved(tmp_path, 0, "finished-fit0", "finished-fit1")
    assert ahead([first, _saved(tmp_path, 1, "finished-fit0")]) == [["finished-fit1"], []]


def test_number_beyond_six_digits_is_newer(tmp_path: Path) -> None:
    first = _saved(tmp_path, 0, "step-999999-fit0-epoch0-step1", "step-1000000-fit0-epoch0-step2")
    assert ahead([first, _saved(tmp_path, 1, "step-999999-fit0-epoch0-step1")]) == [
        ["step-1000000-fit0-epoch0-step2"],
        [],
    ]


def test_other_names_are_no_checkpoints(tmp_path: Path) -> None:
    assert _saved(tmp_path, 0, "refused-step-000001-fit0-epoch0-step1", "tmp-1", "notes") == {}
