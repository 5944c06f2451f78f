"""A run directory: its record, its lock, its summary."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from oomph.errors import RunDirectoryError
from oomph.run.directory.run_directory import RunDirectory, RunRecord, read_record, read_summary

RECORD = RunRecord(("train.py", "--epochs", "3"), sys.executable, "/here", "2026-11-21T07:00:39+0000")


def test_new_run_records_what_is_needed_to_find_it(tmp_path: Path) -> None:
    RunDirectory.create(tmp_path / "run", RECORD).close()
    document = json.loads((tmp_path / "run" / "run.json").read_text())
    assert document["schema"] == 1
    assert document["command"] == ["train.py", "--epochs", "3"]
    assert document["status"] == "running"
    assert read_record(tmp_path / "run") == RECORD


def test_default_directories_are_unique_even_within_one_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("time.strftime", lambda form: "20261121-070039")
    runs = [RunDirectory.create_default("train", RECORD) for _ in range(3)]
    assert [run.path.name for run in runs] == [
        "20261121-070039-train",
        "20261121-070039-train-2",
        "20261121-070039-train-3",
    ]
    for run in runs:
        run.close()


@pytest.mark.parametrize(
    ("script", "end"),
    [
        ("my train/ing é", "-my-train-ing-é"),
        ("обучение", "-обучение"),
        ("训练", "-训练"),
        ("प्रशिक्षण", "-प्रशिक्षण"),
        ("e\u0301tude", "-étude"),
        ("\U0001f680", "-run"),
        ("--", "-run"),
        ("a\x1b[31m\u202eb\n", "-a-31m-b"),
        ("train\udcff", "-train"),
        ("x" * 300, "-" + "x" * 60),
        ("训" * 300, "-" + "训" * 40),
    ],
)
def test_run_name_is_turned_into_a_valid_file_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, end: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("time.strftime", lambda form: "now")
    run = RunDirectory.create_default(script, RECORD)
    assert run.path.name == f"now{end}"
    run.close()


def test_run_name_uses_only_characters_the_file_system_can_encode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os.fsencode", lambda name: os.fspath(name).encode("latin-1"))
    run = RunDirectory.create_default("étude-训练", RECORD)
    assert run.path.name.endswith("-étude")
    run.close()


def test_second_oomph_is_refused_naming_the_process_that_holds_the_run(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path / "run", RECORD)
    with pytest.raises(RunDirectoryError, match=f"in use by another oomph run, process {os.getpid()}"):
        RunDirectory.create(tmp_path / "run", RECORD)
    with pytest.raises(RunDirectoryError, match="in use"):
        RunDirectory.reopen(tmp_path / "run")
    run.close()
    RunDirectory.reopen(tmp_path / "run").close()


def test_folder_in_which_another_oomph_begins_its_run_is_in_use(tmp_path: Path) -> None:
    (tmp_path / "run.json.partial").write_text("")
    with open(tmp_path / "lock", "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(RunDirectoryError, match="is in use by another oomph run"):
            RunDirectory.create(tmp_path, RECORD)
    with pytest.raises(RunDirectoryError, match="is not empty and is not an oomph run"):
        RunDirectory.create(tmp_path, RECORD)


def test_lock_is_held_while_a_process_that_inherited_it_is_alive(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path / "run", RECORD)
    heir = subprocess.Popen(["sleep", "60"], pass_fds=[run.lock_fd])
    run.close()
    with pytest.raises(RunDirectoryError, match="in use"):
        RunDirectory.reopen(tmp_path / "run")
    heir.kill()
    heir.wait(10)
    RunDirectory.reopen(tmp_path / "run").close()


@pytest.mark.parametrize(("status", "words"), [("finished", "finished run"), ("failed", "--resume=")])
def test_second_run_in_the_same_directory_is_refused(tmp_path: Path, status: str, words: str) -> None:
    run = RunDirectory.create(tmp_path / "run", RECORD)
    run.update(status=status)
    run.close()
    with pytest.raises(RunDirectoryError, match=words):
        RunDirectory.create(tmp_path / "run", RECORD)


def test_directory_with_other_files_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("1,2\n")
    with pytest.raises(RunDirectoryError, match="is not empty and is not an oomph run"):
        RunDirectory.create(tmp_path, RECORD)
    with pytest.raises(RunDirectoryError, match="is not an oomph run"):
        RunDirectory.reopen(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data.csv"]


def test_absurd_number_of_attempts_is_rejected() -> None:
    text = RECORD.to_json().replace('"attempts": 0', '"attempts": 2000000')
    with pytest.raises(ValueError, match=r"attempts in .* are not a number from 0 to 1000000"):
        RunRecord.from_json(text)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": 99}', '{"schema": 1, "command": 3}'])
def test_damaged_run_record_reads_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "run.json").write_text(text)
    assert read_record(tmp_path) is None


@pytest.mark.parametrize("entropy", [3, None, "abc", "0" * 33, "x" * 32, "0" * 32 + "\n"])
def test_record_with_a_malformed_entropy_is_not_read(tmp_path: Path, entropy: object) -> None:
    RunDirectory.create(tmp_path / "run", RECORD._replace(entropy="0" * 32)).close()
    found = read_record(tmp_path / "run")
    assert found is not None
    assert found.entropy == "0" * 32
    document = json.loads((tmp_path / "run" / "run.json").read_text())
    (tmp_path / "run" / "run.json").write_text(json.dumps({**document, "entropy": entropy}))
    assert read_record(tmp_path / "run") is None


@pytest.mark.parametrize("field", RunRecord._fields)
def test_record_with_a_missing_field_is_not_read(tmp_path: Path, field: str) -> None:
    RunDirectory.create(tmp_path / "run", RECORD).close()
    document = json.loads((tmp_path / "run" / "run.json").read_text())
    del document[field]
    (tmp_path / "run" / "run.json").write_text(json.dumps(document))
    assert read_record(tmp_path / "run") is None


def test_uncreatable_directory_is_rejected_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunDirectoryError, match="cannot be written: Not a directory"):
        RunDirectory.create(tmp_path / "file" / "run", RECORD)
    with pytest.raises(RunDirectoryError, match="file cannot be written: it is a file, not a folder"):
        RunDirectory.create(tmp_path / "file", RECORD)
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(RunDirectoryError, match="link cannot be written: it is a link to a folder that does not exist"):
        RunDirectory.create(tmp_path / "link", RECORD)


def test_written_summary_is_read_back(tmp_path: Path) -> None:
    (tmp_path / "summary.json").write_text('{"schema": 1, "steps": 9}')
    assert read_summary(tmp_path) == {"schema": 1, "steps": 9}


@pytest.mark.parametrize("content", [None, b"", b"[1]", b'{"steps": ', b"\xff"])
def test_unreadable_summary_counts_as_empty(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "summary.json").write_bytes(content)
    assert read_summary(tmp_path) == {}


def test_summary_behind_a_link_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text('{"steps": 9}')
    (tmp_path / "summary.json").symlink_to(tmp_path / "elsewhere")
    assert read_summary(tmp_path) == {}
