"""Checkpoints on disk: written completely or not at all, and never used when damaged."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import oomph
from oomph.checkpoint import container as checkpoint_module
from oomph.checkpoint import store as store_module
from oomph.checkpoint.container import CheckpointWriter, Position, read_checkpoint
from oomph.checkpoint.manifest import Meta
from oomph.checkpoint.store import CheckpointStore, foreign_format, newest_number, steps_saved_after, unused
from oomph.errors import CheckpointError
from oomph.files.opening import pin, unpin

SOURCE = Path(oomph.__file__).parents[1]


def write(writer: CheckpointWriter) -> None:
    writer.add("model/0", "float32", (2, 3), bytes(range(24)))
    writer.add("model/1", "int64", (), (7).to_bytes(8, "little"))
    writer.add("empty", "float32", (0,), b"")
    (writer.folder / "iterator.index").write_bytes(b"position of the data")


@pytest.fixture
def refused() -> list[tuple[str, str]]:
    return []


@pytest.fixture
def store(tmp_path, refused) -> CheckpointStore:
    store = CheckpointStore(tmp_path / "checkpoints", lambda name, reason: refused.append((name, reason)))
    store.open()
    return store


def save(store, step: int, fit: int = 0):
    return store.draft_step(Position(fit, 0, step, step)).complete(Meta(taken=step), write)


def names(tmp_path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "checkpoints").iterdir())


def test_end_states_are_in_the_order_in_which_they_were_taken_even_if_copied(store, tmp_path):
    for fit, taken_at in ((0, 30.0), (1, 10.0), (2, 20.0)):
        store.draft_finished(Position(fit, 1, 0, fit)).complete(Meta(taken_at=taken_at), write)
    for number, fit in enumerate((2, 1, 0)):
        os.utime(tmp_path / "checkpoints" / f"finished-fit{fit}", (1000 - number, 1000 - number))
    assert [record.position.fit for record in store.records()] == [0, 2, 1]


def test_folder_named_after_another_checkpoint_is_rejected(tmp_path, store, refused):
    root = tmp_path / "checkpoints"
    save(store, 5)
    for fit in (0, 1):
        store.draft_finished(Position(fit, 2, 0, 9)).complete(Meta(), write)
    assert store.finished(0) is not None
    (root / "finished-fit0").rename(root / "kept")
    (root / "finished-fit1").rename(root / "finished-fit0")
    assert store.finished(0) is None
    shutil.copytree(root / "step-000001-fit0-epoch0-step5", root / "finished-fit0")
    assert store.finished(0) is None
    (root / "kept").rename(root / "step-000002-fit0-epoch2-step0")
    assert store.latest_step(0).name == "step-000001-fit0-epoch0-step5"
    assert [reason.rpartition(", ")[2] for _, reason in refused] == 3 * ["in a folder named after something else"]


def test_folder_that_takes_over_the_run_directorys_name_is_left_alone(tmp_path):
    run, other = tmp_path / "run", tmp_path / "other"
    run.mkdir()
    (other / "tmp-precious").mkdir(parents=True)
    pin(run)
    try:
        store = CheckpointStore(run / "checkpoints")
        store.open()
        run.rename(tmp_path / "away")
        run.mkdir()
        (run / "checkpoints").symlink_to(other)
        store.open()
        save(store, 5)
        assert store.latest_step() is not None
    finally:
        unpin(run)
    assert [path.name for path in other.iterdir()] == ["tmp-precious"]
    assert [path.name for path in (tmp_path / "away/checkpoints").iterdir()] == ["step-000001-fit0-epoch0-step5"]


def test_saved_checkpoint_is_read_back(store):
    saved = save(store, 5)
    found = store.latest_step()
    assert found is not None
    assert (found.name, found.position, found.meta) == (saved.name, Position(0, 0, 5, 5), Meta(taken=5))
    read = {entry.name: (entry.dtype, entry.shape, data) for entry, data in found.read()}
    assert read["model/0"] == ("float32", (2, 3), bytes(range(24)))
    assert read["model/1"] == ("int64", (), (7).to_bytes(8, "little"))
    assert read["empty"] == ("float32", (0,), b"")
    assert (found.path / "iterator.index").read_bytes() == b"position of the data"


def test_checksums_are_verified_by_sha256sum(store, tmp_path):
    folder = tmp_path / "checkpoints" / save(store, 1).name
    result = subprocess.run(["sha256sum", "-c", "SHA256SUMS"], cwd=folder, capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stdout.count(": OK")) == (0, 3)


def test_last_two_checkpoints_are_kept(store, tmp_path):
    saved = [save(store, step).name for step in range(1, 6)]
    assert names(tmp_path) == saved[-2:]
    latest = store.latest_step()
    assert latest is not None
    assert latest.position.steps == 5


def test_last_written_checkpoint_is_the_newest_even_at_an_earlier_position(store):
    save(store, 9)
    save(store, 3)
    assert store.latest_step().position.step == 3


def test_checkpoint_numbers_continue_across_processes_and_refusals(store, tmp_path):
    save(store, 1)
    save(store, 2)
    (tmp_path / "checkpoints" / names(tmp_path)[1] / "tensors.bin").write_bytes(b"")
    again = CheckpointStore(tmp_path / "checkpoints")
    again.open()
    assert again.latest_step().position.step == 1
    save(again, 3)
    third = CheckpointStore(tmp_path / "checkpoints")
    third.open()
    assert third.latest_step().position.step == 3


def test_absurd_checkpoint_number_does_not_make_names_too_long(store, tmp_path):
    """A planted checkpoint could have a number so large that the next name would be too long to create."""
    save(store, 1)
    save(store, 2)
    folder = tmp_path / "checkpoints"
    for name, number in zip(names(tmp_path), ("8" * 220, "9" * 220), strict=True):
        (folder / name).rename(folder / name.replace(name[5:11], number))
    (folder / f"refused-step-{'9' * 200}-fit0-epoch0-step0").mkdir()
    again = CheckpointStore(folder)
    again.open()
    assert again.latest_step().position.step == 2
    save(again, 3)
    assert again.latest_step().position.step == 3
    third = CheckpointStore(folder)
    third.open()
    assert third.latest_step().position.step == 3


def test_end_state_outlives_the_step_checkpoints_of_its_fit(store, tmp_path):
    save(store, 1)
    store.draft_finished(Position(0, 2, 0, 30)).complete(Meta(stop_training=True), write)
    store.drop_steps(Position(0, 2, 0, 30))
    assert store.latest_step() is None
    assert store.finished(0).meta == Meta(stop_training=True, finished=True)
    assert store.finished(1) is None


def test_each_fit_keeps_its_own_last_two_checkpoints(store, tmp_path):
    for step in range(1, 5):
        save(store, step, fit=0)
    for step in range(1, 5):
        save(store, step, fit=1)
    kept = [name.partition("-fit")[2] for name in names(tmp_path)]
    assert kept == ["0-epoch0-step3", "0-epoch0-step4", "1-epoch0-step3", "1-epoch0-step4"]
    assert store.latest_step().position.fit == 1
    assert store.latest_step(0).position == Position(0, 0, 4, 4)
    assert store.latest_step(2) is None
    store.drop_steps(Position(1, 2, 0, 30))
    assert [name.partition("-fit")[2] for name in names(tmp_path)] == kept[:2], "those of another fit stay"


def test_checkpoint_is_never_deleted_in_favour_of_one_with_fewer_steps(store, tmp_path):
    for step in (40, 50):
        save(store, step)
    for step in (1, 2, 3, 4):  # the fit has started again
        save(store, step)
    left = [name.partition("-step")[2] for name in names(tmp_path)]
    assert left == ["40", "50", "3", "4"]
    assert store.make_room()
    store.keep_newest_step(0)
    store.drop_steps(Position(0, 0, 45, 45))
    assert [name.partition("-step")[2] for name in names(tmp_path)] == ["50"]
    again = CheckpointStore(tmp_path / "checkpoints")  # another process, which did not write them
    again.open()
    for step in (6, 7, 8):
        save(again, step)
    assert [name.partition("-step")[2] for name in names(tmp_path)] == ["50", "7", "8"]
    for step in (60, 70):
        save(again, step)
    assert [name.partition("-step")[2] for name in names(tmp_path)] == ["60", "70"]


def test_checkpoints_beyond_the_finished_run_are_reported_as_unused(store, tmp_path):
    for fit, step in ((0, 40), (1, 10), (2, 30)):
        save(store, step, fit=fit)
    store.draft_finished(Position(3, 2, 0, 60)).complete(Meta(), write)

    def left(reached):
        return [record.position.fit for record in unused(tmp_path / "checkpoints", reached)]

    assert left({0: 39, 1: 10, 3: 60}) == [2, 0]
    assert left({0: 40, 1: 10, 2: 31}) == [3]
    assert left({0: 40, 1: 10, 2: 31, 3: 60}) == []


def test_previous_checkpoint_is_intact_and_from_the_same_fit(store, refused, tmp_path):
    before = save(store, 1, fit=0)
    save(store, 2, fit=1)
    newest = save(store, 3, fit=0)
    assert store.step_before(store.latest_step(0)).name == before.name
    assert store.step_before(store.step_before(store.latest_step(0))) is None
    (tmp_path / "checkpoints" / before.name / "tensors.bin").write_bytes(b"")
    assert store.step_before(store.latest_step(0)) is None
    assert [name for name, _ in refused] == [before.name]
    assert store.latest_step(0).name == newest.name


def test_previous_checkpoint_is_found_when_the_number_of_digits_changes(store):
    store._number = 999_998
    older, newer = save(store, 1), save(store, 2)
    assert (older.name[:11], newer.name[:12]) == ("step-999999", "step-1000000")
    assert store.step_before(store.latest_step()).name == older.name
    assert store.step_before(store.step_before(store.latest_step())) is None


def test_records_list_checkpoints_without_reading_them(store, tmp_path):
    save(store, 1, fit=0)
    store.draft_finished(Position(0, 2, 0, 30)).complete(Meta(key="place-0"), write)
    os.utime(tmp_path / "checkpoints" / "finished-fit0", (1, 1))
    save(store, 31, fit=1)
    store.draft_finished(Position(2, 1, 0, 40)).complete(Meta(), write)
    (tmp_path / "checkpoints" / names(tmp_path)[2] / "tensors.bin").write_bytes(b"")
    found = store.records()
    assert [(r.position.fit, r.finished, r.meta.key) for r in found] == [
        (1, False, None), (0, False, None), (2, True, None), (0, True, "place-0")
    ]  # fmt: skip
    (tmp_path / "checkpoints" / "finished-fit2" / "manifest.json").write_text("[]")
    assert len(store.records()) == 3, "it is refused when it is to be used"


def test_half_deleted_checkpoint_is_not_reported_as_damaged(store, refused, tmp_path, monkeypatch):
    first = save(store, 1)
    monkeypatch.setattr(
        store_module.shutil, "rmtree", lambda path, ignore_errors: (path / "tensors.bin").unlink(missing_ok=True)
    )
    save(store, 2)
    save(store, 3)
    assert first.name not in names(tmp_path)
    assert store.latest_step().position.step == 3
    monkeypatch.undo()
    again = CheckpointStore(tmp_path / "checkpoints", lambda name, reason: refused.append((name, reason)))
    again.open()
    assert not [name for name in names(tmp_path) if name.startswith("tmp")]
    assert again.latest_step().position.step == 3
    assert refused == []


def test_newer_end_state_replaces_the_older_one(store):
    for steps in (10, 20):
        store.draft_finished(Position(0, 0, 0, steps)).complete(Meta(), write)
    assert store.finished(0).position.steps == 20


@pytest.mark.parametrize("name", ["tensors.bin", "manifest.json", "SHA256SUMS", "iterator.index"])
@pytest.mark.parametrize("damage", ["truncated", "flipped", "gone", "emptied", "longer"])
def test_damaged_checkpoint_falls_back_to_the_previous_one(store, refused, tmp_path, name, damage):
    save(store, 1)
    newest = save(store, 2).name
    spoil(tmp_path / "checkpoints" / newest / name, damage)
    assert store.latest_step().position.step == 1
    assert [who for who, _ in refused] == [newest]
    assert refused[0][1]
    assert f"refused-{newest}" in names(tmp_path)
    assert store.latest_step().position.step == 1
    assert len(refused) == 1, "a checkpoint put aside is not looked at again"


def spoil(path: Path, damage: str) -> None:
    data = bytearray(path.read_bytes())
    if damage == "gone":
        path.unlink()
    elif damage == "emptied":
        path.write_bytes(b"")
    elif damage == "longer":
        path.write_bytes(bytes(data) + b"\0")
    elif damage == "truncated":
        path.write_bytes(bytes(data[: len(data) // 2]))
    else:
        data[len(data) // 2] ^= 1
        path.write_bytes(bytes(data))


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_every_flipped_bit_that_matters_is_detected(tmp_path_factory, data):
    root = tmp_path_factory.mktemp("flip")
    store = CheckpointStore(root)
    store.open()
    folder = root / save(store, 1).name
    path = data.draw(st.sampled_from(sorted(folder.iterdir())))
    content = bytearray(path.read_bytes())
    bit = data.draw(st.integers(0, 8 * len(content) - 1))
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(bytes(content))
    try:
        read = read_checkpoint(folder)
    except CheckpointError:
        return
    # In a checksum file, only the case of letters can change without changing the meaning: no saved data may change.
    assert path.name == "SHA256SUMS"
    assert next(payload for _, payload in read.read()) == bytes(range(24))


@pytest.mark.parametrize("name", ["tensors.bin", "manifest.json"])
def test_damaged_end_state_is_refused(store, refused, tmp_path, name):
    store.draft_finished(Position(0)).complete(Meta(), write)
    spoil(tmp_path / "checkpoints" / "finished-fit0" / name, "flipped")
    assert store.finished(0) is None
    assert refused[0][0] == "finished-fit0"


def test_checkpoint_format_starts_at_1(store, tmp_path):
    folder = tmp_path / "checkpoints" / save(store, 1).name
    assert json.loads((folder / "manifest.json").read_text())["schema"] == 1


@pytest.mark.parametrize("schema", [0, 2, 99, "1", None])
def test_checkpoint_in_another_format_is_refused_naming_both_formats(store, tmp_path, schema):
    folder = tmp_path / "checkpoints" / save(store, 1).name
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest | {"schema": schema}))
    _reseal(folder)
    with pytest.raises(CheckpointError, match=rf"format {schema}, this version \(.*\) reads format 1$"):
        read_checkpoint(folder)


@pytest.mark.parametrize("schema", [0, 2, 99])
def test_checkpoint_in_another_format_stays_in_place(store, refused, tmp_path, schema):
    assert foreign_format(tmp_path / "checkpoints") is None
    folder = tmp_path / "checkpoints" / save(store, 1).name
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest | {"schema": schema, "oomph": "9.9"}))
    _reseal(folder)
    assert store.latest_step() is None
    assert names(tmp_path) == [folder.name]
    assert f"saved by oomph 9.9 in format {schema}" in foreign_format(tmp_path / "checkpoints")
    assert refused == [(folder.name, refused[0][1])]


@pytest.mark.parametrize("text", ["[]", "{}", "no json", '{"schema": 1}', '{"schema": 1, "position": 3}'])
def test_foreign_manifest_is_rejected_with_a_message(store, tmp_path, text):
    folder = tmp_path / "checkpoints" / save(store, 1).name
    (folder / "manifest.json").write_text(text)
    _reseal(folder)
    with pytest.raises(CheckpointError, match=r"manifest\.json is not an oomph manifest"):
        read_checkpoint(folder)


def test_checksums_pointing_outside_the_folder_are_rejected(store, tmp_path):
    folder = tmp_path / "checkpoints" / save(store, 1).name
    with (folder / "SHA256SUMS").open("a") as sums:
        sums.write(f"{'0' * 64}  ../../secret\n")
    with pytest.raises(CheckpointError, match="SHA256SUMS is damaged"):
        read_checkpoint(folder)


def _reseal(folder: Path) -> None:
    (folder / "SHA256SUMS").unlink()
    words = ["sha256sum", *os.listdir(folder)]
    listing = subprocess.run(words, cwd=folder, capture_output=True, check=True, timeout=60)
    (folder / "SHA256SUMS").write_bytes(listing.stdout)


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), ValueError("theirs"), KeyboardInterrupt()])
def test_failed_save_keeps_older_checkpoints_and_leaves_no_trace(store, tmp_path, error):
    save(store, 1)
    before = names(tmp_path)

    def fail(writer: CheckpointWriter) -> None:
        writer.add("half", "float32", (1,), b"abcd")
        raise error

    expected = CheckpointError if isinstance(error, OSError) else type(error)
    with pytest.raises(expected):
        store.draft_step(Position(0, 0, 2, 2)).complete(Meta(), fail)
    assert names(tmp_path) == before
    assert store.latest_step().position.step == 1
    save(store, 3)
    assert store.latest_step().position.step == 3


def test_older_end_state_is_kept_if_a_new_one_cannot_be_written(store):
    store.draft_finished(Position(0, 0, 0, 10)).complete(Meta(), write)

    def fail(writer: CheckpointWriter) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(CheckpointError, match="No space left on device"):
        store.draft_finished(Position(0, 0, 0, 20)).complete(Meta(), fail)
    assert store.finished(0).position.steps == 10


def test_unusable_checkpoint_folder_is_rejected_with_the_reason(tmp_path):
    (tmp_path / "checkpoints").write_text("a file")
    with pytest.raises(CheckpointError, match="checkpoints is a link, or not a folder"):
        CheckpointStore(tmp_path / "checkpoints").open()


def test_folders_that_are_not_checkpoints_are_left_alone(store, tmp_path):
    for name in ("notes", "step-1", "step-000001-fit0-epoch0-step1.bak"):
        (tmp_path / "checkpoints" / name).mkdir()
    assert store.latest_step() is None
    save(store, 1)
    store.drop_steps(Position(0, 2, 0, 30))
    assert names(tmp_path) == ["notes", "step-000001-fit0-epoch0-step1.bak", "step-1"]


def test_newest_checkpoint_is_found_beyond_the_millionth(store):
    store._number = 999_998
    for step in range(1, 5):
        save(store, step)
    assert store.latest_step().position.step == 4


def test_full_disk_deletes_an_older_checkpoint_to_make_room(store, tmp_path):
    save(store, 1)
    newest = save(store, 2).name

    def write_when_there_is_room(writer: CheckpointWriter) -> None:
        if len([name for name in names(tmp_path) if name.startswith("step")]) > 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(writer)

    third = store.draft_step(Position(0, 0, 3, 3)).complete(Meta(), write_when_there_is_room).name
    assert names(tmp_path) == [newest, third]


def test_only_the_last_two_refused_checkpoints_are_kept(store, tmp_path):
    for step in range(4):
        name = save(store, step).name
        (tmp_path / "checkpoints" / name / "tensors.bin").write_bytes(b"")
        store.latest_step()
    save(store, 9)
    assert len([name for name in names(tmp_path) if name.startswith("refused-")]) <= 2


@pytest.mark.parametrize("failure", [errno.EIO, errno.ESTALE, errno.ETIMEDOUT])
@pytest.mark.parametrize("failures", [1, 2, 99])
def test_brief_read_failure_does_not_set_a_checkpoint_aside(store, refused, monkeypatch, failure, failures):
    save(store, 1)
    name = save(store, 2).name
    left, read = [failures], checkpoint_module._digest

    def unreliable(path):
        if path.parent.name == name and left[0] > 0:
            left[0] -= 1
            raise OSError(failure, os.strerror(failure), str(path))
        return read(path)

    monkeypatch.setattr(store_module, "_READ_PAUSE_SECONDS", 0)
    monkeypatch.setattr(checkpoint_module, "_digest", unreliable)
    assert store.latest_step().position.step == (2 if failures < 3 else 1)
    left[0] = 0
    assert store.latest_step().position.step == 2, "nothing was put aside"
    assert [who for who, _ in refused] == ([] if failures < 3 else [name])


@pytest.mark.parametrize("failure", [errno.EINVAL, errno.ENOTSUP])
def test_checkpoint_is_saved_without_folder_flush_support(store, monkeypatch, failure):
    flush = os.fsync

    def picky(fd):
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            raise OSError(failure, os.strerror(failure))
        flush(fd)

    monkeypatch.setattr(os, "fsync", picky)
    save(store, 1)
    assert store.latest_step().position.step == 1


def test_failed_flush_leaves_nothing_behind(store, tmp_path, monkeypatch):
    def broken(fd):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(CheckpointError, match="Input/output error"):
        save(store, 1)
    assert names(tmp_path) == []


def test_checkpoint_after_a_given_step_can_be_set_aside(store, refused):
    save(store, 1)
    name = save(store, 2).name
    store.set_aside(1, "not to be trusted")
    assert store.latest_step().position.step == 1
    assert refused == [(name, "not to be trusted")]


def test_same_tensors_have_the_same_digest(store):
    assert save(store, 1).digest == save(store, 2).digest
    other = store.draft_step(Position(0, 0, 3, 3)).complete(
        Meta(), lambda writer: writer.add("a", "float32", (1,), b"1234")
    )
    assert other.digest != save(store, 4).digest


_KILLED_WHILE_WRITING = """
import os, signal, sys
sys.path.insert(0, {source!r})
from pathlib import Path
from oomph.checkpoint.container import Position
from oomph.checkpoint.manifest import Meta
from oomph.checkpoint.store import CheckpointStore, foreign_format
store = CheckpointStore(Path({root!r}))
store.open()

def half(writer):
    writer.add("a", "float32", (2,), b"12345678")
    writer._file.flush()
    os.kill(os.getpid(), signal.SIGKILL)

store.draft_step(Position(0, 0, 1, 1)).complete(Meta(), lambda w: w.add("a", "float32", (1,), b"1234"))
at = Position(0, 0, 2, 2)
store.{call}
"""


@pytest.mark.parametrize("call", ["draft_step(at).complete(Meta(), half)", "draft_finished(at).complete(Meta(), half)"])
def test_writer_killed_midway_leaves_no_partial_checkpoint(tmp_path, call):
    root = tmp_path / "checkpoints"
    code = textwrap.dedent(_KILLED_WHILE_WRITING).format(source=str(SOURCE), root=str(root), call=call)
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == -signal.SIGKILL
    assert len([path for path in root.iterdir() if path.name.startswith("tmp-")]) == 1
    store = CheckpointStore(root)
    store.open()
    assert [path.name for path in root.iterdir()] == ["step-000001-fit0-epoch0-step1"]
    assert store.latest_step().position.step == 1
    assert store.finished(0) is None


def test_checkpoint_with_a_file_missing_from_its_checksums_is_rejected(store, refused, tmp_path):
    """TensorFlow would read the parts of an iterator by name."""
    saved = save(store, 1)
    (tmp_path / "checkpoints" / saved.name / "iterator.data-00000-of-00002").write_bytes(b"planted")
    assert store.latest_step() is None
    assert [reason for _, reason in refused] == ["iterator.data-00000-of-00002 is not in SHA256SUMS"]


@pytest.mark.parametrize(("limit", "words"), [("_MOST_PARTS", "values"), ("_MOST_OF_MANIFEST", "larger than expected")])
def test_oversized_manifest_is_rejected_before_parsing(store, tmp_path, monkeypatch, limit, words):
    folder = tmp_path / "checkpoints" / save(store, 1).name
    manifest = (folder / "manifest.json").read_text()
    (folder / "manifest.json").write_text(manifest[:-1] + ',"more":[' + "{}," * 10_000 + "0]}")
    _reseal(folder)
    assert read_checkpoint(folder).position.steps == 1
    monkeypatch.setattr(checkpoint_module, limit, 8000)
    monkeypatch.setattr(checkpoint_module.json, "loads", lambda text: pytest.fail("parsed"))
    for read in (read_checkpoint, checkpoint_module.read_manifest, checkpoint_module.format_trouble):
        with pytest.raises(CheckpointError, match=words):
            read(folder)


def test_manifest_checksum_is_verified_before_parsing(store, tmp_path):
    folder = tmp_path / "checkpoints" / save(store, 1).name
    with (folder / "manifest.json").open("a") as file:
        file.write(" ")
    for read in (read_checkpoint, checkpoint_module.read_manifest, checkpoint_module.format_trouble):
        with pytest.raises(CheckpointError, match="does not match its checksum"):
            read(folder)


def test_manifest_too_large_to_read_back_is_not_written(store, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint_module, "_MOST_PARTS", 10)
    with pytest.raises(CheckpointError, match="it could not be read back"):
        save(store, 1)
    assert names(tmp_path) == []


def test_arrays_that_do_not_fit_in_memory_are_not_read(store, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint_module, "_SURELY_THERE", 1000)
    saved = store.draft_step(Position(0, 0, 1, 1)).complete(
        Meta(taken=1), lambda writer: writer.add("object/0", "uint8", (800,), bytes(800))
    )
    folder = tmp_path / "checkpoints" / saved.name
    for available, fits in ((1599, False), (1600, True), (None, True)):
        monkeypatch.setattr(checkpoint_module, "available_bytes", lambda available=available: available)
        if fits:
            assert read_checkpoint(folder).position.steps == 1
        else:
            with pytest.raises(CheckpointError, match="take 1600 bytes, more than the available memory"):
                read_checkpoint(folder)


def test_steps_come_from_the_newest_readable_checkpoint_after_a_given_number(store, tmp_path):
    root = tmp_path / "checkpoints"
    assert (newest_number(root), steps_saved_after(root, 0)) == (0, 0)
    save(store, 3)
    (root / "step-000002-fit0-epoch0-step9").mkdir()  # damaged: nothing could resume from it
    (root / "refused-step-000003-fit0-epoch0-step9").mkdir()
    assert newest_number(root) == 3
    assert [steps_saved_after(root, number) for number in (0, 1)] == [3, 0]


def test_missing_folder_contains_no_saved_steps(tmp_path):
    assert (newest_number(tmp_path / "none"), steps_saved_after(tmp_path / "none", 0)) == (0, 0)


def test_checkpoint_that_all_workers_have_is_kept_until_there_is_a_newer_one(tmp_path, store):
    store.common = 0
    save(store, 1)
    store.common = 1
    for step in range(2, 8):  # a worker does not save, so that none of these is complete
        save(store, step)
    kept = [int(name.rpartition("-step")[2]) for name in names(tmp_path)]
    assert kept == [1, 5, 6, 7]
    assert not store.make_room()
    store.common = 7
    save(store, 8)
    assert [int(name.rpartition("-step")[2]) for name in names(tmp_path)] == [7, 8]


def test_end_state_leaves_the_checkpoints_that_other_workers_may_have_to_resume_from(tmp_path, store):
    store.common = 2
    save(store, 2)
    save(store, 3)
    end = Position(0, 0, 4, 4)
    store.draft_finished(end).complete(Meta(), write)
    store.drop_steps(end)
    assert len(names(tmp_path)) == 3
    store.common = 5  # so all workers have begun the next fit
    save(store, 5, fit=1)
    assert [name for name in names(tmp_path) if "fit0" in name] == ["finished-fit0"]
