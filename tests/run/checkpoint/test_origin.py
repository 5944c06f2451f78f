"""The key next to a run directory, and the seals that show which checkpoints were written there."""

from __future__ import annotations

import os

import pytest

from oomph.checkpoint import origin
from oomph.checkpoint.container import CheckpointWriter, Position
from oomph.checkpoint.manifest import Meta
from oomph.checkpoint.origin import key_name, key_of
from oomph.checkpoint.store import CheckpointStore


def test_key_is_created_once_and_private_to_this_user(tmp_path):
    key = key_of(tmp_path / "run", "1")
    assert len(key) == 32
    assert key_of(tmp_path / "other", "1") == key
    assert key_of(tmp_path / "run", "2") != key
    assert (tmp_path / key_name()).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("harm", ["readable", "short", "empty", "link", "folder"])
def test_key_that_others_may_know_is_never_used(tmp_path, harm):
    before, path = key_of(tmp_path / "run", "1"), tmp_path / key_name()
    match harm:
        case "readable":
            path.chmod(0o644)
        case "short":
            path.write_bytes(b"short")
        case "empty":
            path.write_bytes(b"")
        case "link":
            path.rename(tmp_path / "moved")
            path.symlink_to(tmp_path / "moved")
        case "folder":
            path.unlink()
            path.mkdir()
    found = key_of(tmp_path / "run", "1")
    assert found is not None
    assert found != before
    again = key_of(tmp_path / "run", "1")
    assert again not in (before, found)
    if harm in ("readable", "short", "empty"):
        assert key_of(tmp_path / "run", "1") == again, "a new one was made"


@pytest.mark.parametrize("exists", [False, True])
def test_no_key_is_kept_on_a_file_system_without_modes(tmp_path, monkeypatch, exists):
    if exists:
        key_of(tmp_path / "run", "1")
        (tmp_path / key_name()).chmod(0o644)
    monkeypatch.setattr(os, "fchmod", lambda fd, mode: None)
    monkeypatch.setattr(origin, "_is_for_us_alone", lambda fd: False)
    assert key_of(tmp_path / "run", "1") is None


def test_folder_without_a_key_is_left_alone(tmp_path, monkeypatch):
    def refuse(*arguments, **options):
        raise PermissionError

    monkeypatch.setattr(os, "open", refuse)
    assert key_of(tmp_path / "run", "1") is None


def saved_in(root, key, foreign):
    store = CheckpointStore(root, key=key, from_elsewhere=foreign.append)
    store.open()
    if not list(root.iterdir()):
        store.draft_step(Position(0, 0, 1, 1)).complete(Meta(), write)
    return store.latest_step()


def write(writer: CheckpointWriter) -> None:
    writer.add("model/0", "float32", (1,), bytes(4))


def test_only_checkpoints_sealed_with_the_key_count_as_local(tmp_path):
    foreign: list[str] = []
    root, key = tmp_path / "checkpoints", bytes(range(32))
    assert saved_in(root, key, foreign) is not None
    assert foreign == []
    assert saved_in(root, bytes(32), foreign) is not None
    assert foreign == ["step-000001-fit0-epoch0-step1"]
    assert saved_in(root, None, foreign) is not None
    assert len(foreign) == 1
    (root / foreign[0] / "SEAL").unlink()
    assert saved_in(root, key, foreign) is not None
    assert len(foreign) == 2
