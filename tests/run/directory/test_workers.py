"""The run directories of several workers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from oomph.checkpoint.origin import key_name, key_of
from oomph.errors import RunDirectoryError
from oomph.run.directory.run_directory import RunDirectory, RunRecord
from oomph.run.directory.search import runs_in
from oomph.run.directory.trust import why_not_trusted
from oomph.run.directory.workers import directory_of, folders_of

ENTROPY = "ab" * 16


@pytest.fixture
def run(tmp_path: Path):
    record = RunRecord(("train.py",), "python", "/", "", entropy=ENTROPY, workers=3)
    created = RunDirectory.create(tmp_path / "runs" / "run", record)
    yield created
    created.close()


def test_first_worker_has_the_directory_of_the_run(run: RunDirectory) -> None:
    assert directory_of(run, 0) is run


def test_others_lie_below_it_and_are_no_runs_of_their_own(run: RunDirectory) -> None:
    others = [directory_of(run, rank) for rank in (1, 2)]
    assert folders_of(run.path) == [run.path, *(each.path for each in others)]
    assert [each.path.stat().st_mode & 0o777 for each in others] == [0o700, 0o700]
    assert runs_in(run.path.parent.parent) == [run.path]


def test_generators_without_a_seed_differ_between_workers_but_not_between_attempts(run: RunDirectory) -> None:
    drawn = [directory_of(run, rank).record.entropy for rank in (0, 1, 2)]
    assert len(set(drawn)) == 3
    assert drawn == [directory_of(run, rank).record.entropy for rank in (0, 1, 2)]
    assert all(len(each) == 32 for each in drawn)


def test_key_for_a_workers_checkpoints_lies_outside_the_run(run: RunDirectory) -> None:
    other = directory_of(run, 1)
    assert key_of(other.path, ENTROPY) == key_of(run.path, ENTROPY)
    assert (run.path.parent / key_name()).exists()
    assert not list(run.path.rglob(".oomph-key*"))


def test_planted_link_is_neither_followed_nor_trusted(run: RunDirectory, tmp_path: Path) -> None:
    (run.path / "workers").symlink_to(tmp_path)
    (tmp_path / "1").mkdir()
    assert folders_of(run.path) == [run.path]
    assert "workers in it is a link" in str(why_not_trusted(run.path))
    with pytest.raises(RunDirectoryError, match="cannot be written"):
        directory_of(run, 1)


@pytest.mark.parametrize("workers", [0, -1, 1025, "2", None, 1.5])
def test_impossible_number_of_workers_is_refused(run: RunDirectory, workers: object) -> None:
    document = json.loads(run.record.to_json())
    with pytest.raises(ValueError, match="the workers in run"):
        RunRecord.from_json(json.dumps({**document, "workers": workers}))
