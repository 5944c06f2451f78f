"""Several workers resume from the newest checkpoint that all of them have."""

from __future__ import annotations

from pathlib import Path

import pytest

from oomph.checkpoint.container import is_sealed_with, seal
from oomph.checkpoint.origin import key_of
from oomph.errors import RunDirectoryError
from oomph.run.directory.run_directory import RunDirectory, RunRecord
from oomph.run.directory.workers import directory_of
from oomph.run.supervisor.common_checkpoint import ahead, saved_in, share_checkpoints


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


NEWEST, OLD = "step-000004-fit0-epoch0-step20", "step-000002-fit0-epoch0-step10"


@pytest.fixture
def workers(tmp_path: Path):
    """Return the run directories of two workers. The first one has a checkpoint that was written here."""
    record = RunRecord(("train.py",), "python", "/", "", entropy="ab" * 16, workers=2)
    first = RunDirectory.create(tmp_path / "runs" / "run", record)
    second = directory_of(first, 1)
    _checkpoint(first, NEWEST)
    seal(first.path / "checkpoints" / NEWEST, key_of(first.path, first.record.entropy))
    yield first, second
    first.close()


def _checkpoint(run: RunDirectory, name: str) -> None:
    (run.path / "checkpoints" / name).mkdir(parents=True)
    (run.path / "checkpoints" / name / "manifest.json").write_text("{}")


def test_joining_worker_gets_what_the_first_one_has_as_if_it_had_written_it(workers) -> None:
    first, joining = workers
    _checkpoint(joining, OLD)
    share_checkpoints(first, joining)
    mine = joining.path / "checkpoints"
    assert sorted(path.name for path in mine.iterdir()) == [f"refused-{OLD}", NEWEST]
    assert (mine / NEWEST / "manifest.json").read_text() == "{}"
    assert is_sealed_with(mine / NEWEST, key_of(joining.path, joining.record.entropy))
    assert is_sealed_with(first.path / "checkpoints" / NEWEST, key_of(first.path, first.record.entropy))


def test_worker_may_join_again_before_there_is_a_newer_checkpoint(workers) -> None:
    first, joining = workers
    for _ in range(3):
        share_checkpoints(first, joining)
    mine = joining.path / "checkpoints"
    assert sorted(path.name for path in mine.iterdir()) == [f"refused-{NEWEST}", NEWEST]


def test_copy_of_a_checkpoint_from_elsewhere_is_not_sealed(workers) -> None:
    first, joining = workers
    for proof in ("SHA256SUMS", "SEAL"):
        (first.path / "checkpoints" / NEWEST / proof).unlink()
    seal(first.path / "checkpoints" / NEWEST, b"another key")
    share_checkpoints(first, joining)
    assert not is_sealed_with(joining.path / "checkpoints" / NEWEST, key_of(joining.path, joining.record.entropy))


def test_joining_worker_whose_folder_cannot_be_written_is_one_sentence(workers) -> None:
    first, joining = workers
    (joining.path / "checkpoints").write_text("no folder")
    with pytest.raises(RunDirectoryError, match=r"the checkpoints cannot be copied to .*/workers/1/checkpoints: "):
        share_checkpoints(first, joining)
