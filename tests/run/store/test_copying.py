"""A copy of a run is complete at any moment, whatever interrupts it, and nothing in it is written by two."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from stores import ELSEWHERE, Failing, claimed, copying_of

from oomph.checkpoint.container import read_checkpoint, seal
from oomph.errors import StoreError, SupersededError
from oomph.run.directory.run_directory import RunDirectory, read_record
from oomph.run.store import copying as copying_module
from oomph.run.store import layout
from oomph.run.store.claims import newest_claim, newest_manifest
from oomph.run.store.copying import Copying
from oomph.run.store.fetching import fetch
from oomph.run.store.layout import PART_BYTES, FilePart, StoreManifest, WriteClaim
from oomph.run.store.object_store import ObjectStore


def fetched(objects: ObjectStore, target: Path) -> Path:
    manifest = newest_manifest(objects, newest_claim(objects))
    assert manifest is not None
    fetch(objects, manifest, target, lambda: None)
    return target


def names(run_dir: Path) -> list[str]:
    return sorted(path.name for path in run_dir.glob("checkpoints/*"))


def contents(folder: Path) -> dict[str, bytes]:
    found = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in found.items() if name != "lock"}


def test_fetched_run_equals_the_copied_one(objects: ObjectStore, run: RunDirectory, save: Callable[..., str], tmp_path):
    save(1), save(2)
    copying_of(objects, run).round()
    there = fetched(objects, tmp_path / "there")
    assert contents(there) == contents(run.path)
    assert read_record(there) == run.record
    assert [read_checkpoint(there / "checkpoints" / name).position.steps for name in names(there)] == [1, 2]
    modes = {path.stat().st_mode & 0o077 for path in there.rglob("*")}
    assert modes == {0}, "nobody else may read or write it"


def test_checkpoints_are_kept_as_locally_and_their_objects_removed(objects, run, save, tmp_path):
    copying = copying_of(objects, run)
    for step in range(1, 6):
        save(step)
        copying.round()
    assert names(fetched(objects, tmp_path / "there")) == names(run.path)
    manifest = newest_manifest(objects, newest_claim(objects))
    assert set(objects.listed("objects/1")) == {part.name for part in manifest.parts}


def test_unchanged_part_is_written_once(objects, run, save, monkeypatch):
    failing = Failing(objects, 10**6)
    monkeypatch.setattr(copying_module, "PART_BYTES", 1000)
    copying = Copying(failing, run.path, claimed(objects), lambda: None)
    frozen = bytes(range(250)) * 4
    save(1, frozen + b"1" * 1000)
    copying.round()
    before = len(failing.written)
    save(2, frozen + b"2" * 1000)
    copying.round()
    written = [name for name in failing.written[before:] if name.startswith("objects/")]
    assert len(written) == 3, "the second half of the tensors, manifest.json and SHA256SUMS"
    copying.round()
    assert len(failing.written) == before + 4, "nothing has changed"


@pytest.mark.parametrize("after", range(8))
def test_copy_that_is_cut_off_leaves_the_one_before(objects, run, save, tmp_path, after):
    """Cut after each write of the second round, down to its manifest."""
    first = save(1)
    copying_of(objects, run).round()
    save(2)
    again = Copying(Failing(objects, after), run.path, claimed(objects), lambda: None)
    try:
        again.round()
    except StoreError:
        there = fetched(objects, tmp_path / "there")
        assert names(there) == [first]
        assert read_checkpoint(there / "checkpoints" / first).position.steps == 1
    else:
        assert after >= 4
        assert len(names(fetched(objects, tmp_path / "there"))) == 2


def test_half_a_manifest_does_not_hide_the_whole_one(objects, run, save, tmp_path):
    copying = copying_of(objects, run)
    save(1)
    copying.round()
    newest = newest_manifest(objects, newest_claim(objects))
    objects.write(newest._replace(sequence=2).slot, newest.to_json()[:-7])
    assert newest_manifest(objects, newest_claim(objects)) == newest
    assert names(fetched(objects, tmp_path / "there")) == names(run.path)


def test_next_generation_removes_what_the_last_one_left(objects, run, save):
    save(1)
    copying_of(objects, run).round()
    objects.write(FilePart(1, "0" * 64, 3).name, b"cut")  # in no manifest: its writer was killed
    again = copying_of(objects, run)
    again.round()
    manifest = newest_manifest(objects, newest_claim(objects))
    assert manifest.generation == 2
    assert {part.generation for part in manifest.parts} == {1}, "nothing was copied again"
    assert set(objects.listed("objects/1")) == {part.name for part in manifest.parts}
    assert newest_manifest(objects, WriteClaim(1, ELSEWHERE, "")) is None


def test_older_writer_notices_the_newer_one_and_removes_nothing(objects, run, save, tmp_path):
    older = copying_of(objects, run)
    save(1)
    older.round()
    there = fetched(objects, tmp_path / "there")
    before = newest_manifest(objects, newest_claim(objects))
    newer = Copying(objects, there, claimed(objects), lambda: None)
    for step in (2, 3, 4):
        save(step)
    with pytest.raises(SupersededError, match=r"another oomph run, process 7 on elsewhere, writes it now"):
        older.round()
    assert newest_manifest(objects, newest_claim(objects)) == before
    newer.round()
    assert contents(fetched(objects, tmp_path / "again")) == contents(there)


def test_claim_made_at_once_by_two_is_kept_by_one(objects, run):
    mine = claimed(objects)
    copying = Copying(objects, run.path, mine, lambda: None)
    objects.write(mine.name, mine._replace(nonce="other").to_json())  # in a store that cannot refuse the second
    with pytest.raises(SupersededError):
        copying.round()


def test_emptied_store_is_not_filled_again(objects, run):
    mine = claimed(objects)
    copying = Copying(objects, run.path, mine, lambda: None)
    objects.remove([mine.name])
    with pytest.raises(SupersededError, match="it has been emptied"):
        copying.round()


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 7, 8, 21])
def test_newest_claim_is_found_without_a_list(objects, count, monkeypatch):
    monkeypatch.setattr(objects, "listed", lambda folder: pytest.fail("listed"))
    for _ in range(count):
        claimed(objects)
    newest = newest_claim(objects)
    assert (0 if newest is None else newest.generation) == count


def test_claim_cut_off_by_a_kill_is_taken(objects):
    objects.write("claims/1.json", b"")
    assert claimed(objects).generation == 2


def test_checkpoint_removed_while_it_is_copied_is_copied_to_its_end(objects, run, save, tmp_path, monkeypatch):
    monkeypatch.setattr(copying_module, "PART_BYTES", 1000)
    name = save(1, os.urandom(5000))
    wanted = contents(run.path / "checkpoints" / name)

    def remove() -> None:
        for path in (run.path / "checkpoints").glob("*/*"):
            path.unlink()

    Copying(objects, run.path, claimed(objects), remove).round()
    assert contents(fetched(objects, tmp_path / "there") / "checkpoints" / name) == wanted


def test_checkpoint_that_is_not_complete_or_was_refused_is_not_copied(objects, run, save, tmp_path):
    name = save(1)
    for other in (f"tmp-{name}-7", f"refused-{name}"):
        (run.path / "checkpoints" / name).rename(run.path / "checkpoints" / other)
        save(1)
    copying_of(objects, run).round()
    assert all(path.startswith("step-") for path in names(fetched(objects, tmp_path / "there")))


def test_checkpoint_that_takes_the_place_of_another_leaves_none_of_its_files(objects, run, save, tmp_path):
    copying = copying_of(objects, run)
    path = run.path / "checkpoints" / save(1)
    (path / "of-the-first").write_bytes(b"state of an iterator")
    seal(path)
    copying.round()
    shutil.rmtree(path)
    save(1, b"other")
    copying.round()
    there = fetched(objects, tmp_path / "there") / "checkpoints" / path.name
    assert contents(there) == contents(path)
    read_checkpoint(there)


def test_checkpoints_of_all_workers_are_those_of_one_moment(objects, run, save, tmp_path):
    """While those of the first are copied, all workers go on, and remove what they had."""
    for rank, step in itertools.product((0, 1), (1, 2)):
        save(step, rank=rank)
    going_on = iter([3, 4])

    def go_on() -> None:
        for step in going_on:
            save(step, rank=0), save(step, rank=1)

    Copying(objects, run.path, claimed(objects), go_on).round()
    there = fetched(objects, tmp_path / "there")
    assert names(there) == names(there / "workers" / "1")
    assert [name[-5:] for name in names(there)] == ["step1", "step2"]


def test_run_directory_that_cannot_be_read_leaves_the_copy_as_it_is(objects, run, save, tmp_path, monkeypatch):
    name = save(1)
    copying = copying_of(objects, run)
    copying.round()

    def fail(folder: object) -> list[str]:
        raise OSError(116, "Stale file handle")

    monkeypatch.setattr(copying_module.os, "listdir", fail)
    with pytest.raises(OSError, match="Stale"):
        copying.round()
    monkeypatch.undo()
    assert names(fetched(objects, tmp_path / "there")) == [name]


def test_checkpoints_of_all_workers_are_copied(objects, run, save, tmp_path):
    for rank in (0, 1, 2):
        save(1, rank=rank)
    copying_of(objects, run).round()
    there = fetched(objects, tmp_path / "there")
    assert sorted(str(path.relative_to(there).parent) for path in there.rglob("step-*")) == [
        "checkpoints",
        "workers/1/checkpoints",
        "workers/2/checkpoints",
    ]


# -- what a store may hold --------------------------------------------------------------------------------------------


def test_damaged_part_is_refused_and_leaves_no_folder(objects, run, save, tmp_path):
    save(1)
    copying_of(objects, run).round()
    manifest = newest_manifest(objects, newest_claim(objects))
    part = manifest.files["run.json"][0]
    objects.write(part.name, bytes(part.nbytes))
    with pytest.raises(StoreError, match="does not match its digest"):
        fetched(objects, tmp_path / "there")
    objects.remove([part.name])
    with pytest.raises(StoreError, match="is missing"):
        fetched(objects, tmp_path / "there")
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith("there")) == []


@pytest.mark.parametrize("path", ["../x", "/x", "a/../../x", "a//x", "", ".", "a/\0"])
def test_planted_path_leads_nowhere(path):
    planted = StoreManifest(1, 1, "run", "{}", {path: ()}).to_json()
    with pytest.raises(ValueError, match="leads out of the run directory"):
        StoreManifest.from_json(1, planted)


@pytest.mark.parametrize(
    "part",
    [(1, "../../x", 3), (1, "0" * 63, 3), (1, "0" * 64, 0), (1, "0" * 64, PART_BYTES + 1), ("1", "0" * 64, 3), (1,), 7],
)
def test_planted_part_is_refused(part):
    document = StoreManifest(1, 1, "run", "{}", {"run.json": ()}).to_json().decode()
    planted = document.replace('"run.json":[]', f'"run.json":[{layout.json.dumps(part)}]')
    with pytest.raises(ValueError, match="not a part"):
        StoreManifest.from_json(1, planted.encode())


@pytest.mark.parametrize("name", ["..", "a/b", ""])
def test_planted_name_of_the_run_is_refused(name):
    with pytest.raises(ValueError, match="not a manifest"):
        StoreManifest.from_json(1, StoreManifest(1, 1, name, "{}", {}).to_json())


def test_store_of_another_format_is_refused_in_one_sentence():
    of_later = StoreManifest(1, 1, "run", "{}", {}).to_json().replace(b'"schema":1', b'"schema":2')
    with pytest.raises(StoreError, match=r"in format 2; this version, .*, reads format 1"):
        StoreManifest.from_json(1, of_later)
