"""GPU measurements are stored privately for this user, and never trusted when read back."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from oomph.cli.kept_probes import folder, keep, kept_for
from oomph.planning.probe_record import Point, ProbeRecord

RECORD = ProbeRecord("NVIDIA GeForce RTX 4090", "2.21.0", "graph", True, "abc", 10**9, 0, (Point(2, 110, 100),))


@pytest.fixture(name="environ")
def _environ(tmp_path: Path) -> dict[str, str]:
    return {"XDG_CACHE_HOME": str(tmp_path / "cache")}


def read(environ: dict[str, str], gpu: str = "RTX 4090") -> tuple[list[ProbeRecord], list[str]]:
    said: list[str] = []
    return kept_for(gpu, environ, said.append), said


def kept(record: ProbeRecord, environ: dict[str, str]) -> list[str]:
    said: list[str] = []
    keep(record, environ, said.append)
    return said


def test_probe_records_are_kept_in_the_users_cache_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert folder({}) == tmp_path / ".cache/oomph/probes"
    assert folder({"XDG_CACHE_HOME": "relative"}) == tmp_path / ".cache/oomph/probes"
    assert folder({"XDG_CACHE_HOME": "/elsewhere"}) == Path("/elsewhere/oomph/probes")


def test_stored_record_is_returned_for_the_same_kind_of_gpu(environ):
    assert read(environ) == ([], [])
    assert kept(RECORD, environ) == []
    assert read(environ) == ([RECORD], [])
    assert read(environ, "NVIDIA GeForce RTX 4090") == ([RECORD], [])
    assert read(environ, "T4") == ([], [])
    assert read(environ, "a card of nobody") == ([], [])


def test_newer_record_replaces_an_older_one_for_the_same_training_run(environ):
    newer = replace(RECORD, points=(Point(2, 120, 100),))
    for record in (RECORD, newer, replace(RECORD, training="other"), replace(RECORD, tensorflow="2.20.0")):
        kept(record, environ)
    found, _ = read(environ)
    assert len(found) == 3
    assert newer in found
    assert RECORD not in found


def test_record_is_readable_only_by_its_owner(environ):
    before = os.umask(0)
    try:
        kept(RECORD, environ)
    finally:
        os.umask(before)
    where = folder(environ)
    assert stat.S_IMODE(where.stat().st_mode) == 0o700
    assert [stat.S_IMODE(path.stat().st_mode) for path in where.iterdir()] == [0o600]


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "null", '{"schema": 1}', "[" * 10_000, "x" * 100_000, b"\xff\xfe\x00"], ids=range(8)
)
def test_damaged_records_are_ignored_with_one_message(environ, content):
    kept(RECORD, environ)
    for name in ("a.json", "b.json"):
        (folder(environ) / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    found, said = read(environ)
    assert found == [RECORD]
    assert len(said) == 1
    assert said[0].endswith(".json and 1 more cannot be read and is ignored: delete it")


def test_symbolic_link_and_fifo_in_the_probe_folder_are_not_read(environ, tmp_path):
    kept(RECORD, environ)
    where = folder(environ)
    real = next(where.iterdir()).rename(tmp_path / "real.json")
    (where / "link.json").symlink_to(real)
    os.mkfifo(where / "fifo.json")
    found, said = read(environ)
    assert found == []
    assert len(said) == 1


def test_folder_writable_by_others_is_ignored(environ):
    kept(RECORD, environ)
    folder(environ).chmod(0o777)
    found, said = read(environ)
    assert found == []
    assert "others can write to it" in said[0]


def test_failure_to_store_a_record_is_reported_without_an_error(environ, tmp_path):
    (tmp_path / "cache").write_text("a file")
    said = kept(RECORD, environ)
    assert len(said) == 1
    assert said[0].startswith("the measurements cannot be kept for later plans: ")


def test_oldest_records_are_removed(environ, monkeypatch):
    monkeypatch.setattr("oomph.cli.kept_probes._MOST_FILES", 3)
    for number in range(5):
        record = replace(RECORD, training=str(number))
        kept(record, environ)
        for path in folder(environ).iterdir():
            if json.loads(path.read_text())["training"] == str(number):
                os.utime(path, (number, number))
    assert {record.training for record in read(environ)[0]} == {"2", "3", "4"}
