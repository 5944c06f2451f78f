"""The `oomph demo` command line and what it leaves. Its claims are tested in tests/test_project.py."""

from __future__ import annotations

import errno
import json
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from oomph import cli
from oomph.cli import output
from oomph.demo import show
from oomph.demo.claims import ChildEnding, DemoTrial, Measured, Survived
from oomph.terminal.screen import Screen

TRIAL = DemoTrial("float32", Survived(ChildEnding(0, 1.0), True), None)
MEASURED = Measured(ChildEnding(1, 1.0, "ResourceExhaustedError"), TRIAL, TRIAL, noise=1e-7)


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Run the demonstration in an empty folder, in no time: its trainings have these results."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(show, "_NEEDED", ())
    monkeypatch.setattr(show._Demo, "run", lambda demo: MEASURED)
    return tmp_path


@pytest.mark.parametrize(("options", "width"), [([], 99), (["--json"], 55)])
def test_demo_table_fits_the_terminal_it_is_printed_to(
    monkeypatch: pytest.MonkeyPatch, options: list[str], width: int
) -> None:
    asked: list[int] = []

    def shown(keep: str | None, say: show.Say, width: int) -> show.Shown:
        asked.append(width)
        return show.Shown((), 1.0, Path())

    monkeypatch.setattr(show, "show", shown)
    monkeypatch.setattr(output, "screen_of_stream", lambda stream: Screen(width=55 if stream is sys.stderr else 99))
    assert cli.main(["demo", *options]) == 0
    assert asked == [width]


def test_everything_is_kept_and_the_end_says_what_to_try_next(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):  # a second demo in the same folder does not disturb the first
        cli.main(["demo"])
    folders = sorted((trained / ".oomph/demo").iterdir())
    assert len(folders) == 2
    assert all((folder / name).is_file() for folder in folders for name in ("digits.py", "claims.json"))
    lines = capsys.readouterr().out.splitlines()
    following = lines[len(lines) - lines[::-1].index("next:") :]
    words = [line.split() for line in following]
    run = str(max(folders, key=lambda folder: folder.stat().st_mtime_ns).relative_to(trained) / "oomph-run")
    assert [line[1:3] for line in words] == [["report", run], ["explain", run], ["run", "train.py"]]
    assert {line[0] for line in words} == {show._program()}


def test_chosen_folder_is_kept_and_stated_in_the_document(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["demo", "--keep", "mine", "--json"])
    assert json.loads(capsys.readouterr().out)["folder"] == str(trained / "mine")
    assert cli.main(["demo", "--keep", "mine"]) == 2
    assert "mine is not empty: choose another directory" in capsys.readouterr().err


def test_folder_that_cannot_be_written_is_replaced_by_a_temporary_one(
    trained: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    (trained / ".oomph").touch()
    elsewhere = tmp_path_factory.mktemp("temporary")
    monkeypatch.setattr(show.tempfile, "tempdir", str(elsewhere))
    cli.main(["demo"])
    assert ".oomph/demo cannot be written" in capsys.readouterr().out
    assert [path.name[:11] for path in elsewhere.iterdir()] == ["oomph-demo-"]


def test_full_disk_is_reported_in_one_sentence(
    trained: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(demo: show._Demo) -> Measured:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(show._Demo, "run", full)
    assert cli.main(["demo", "--keep", "mine"]) == 1
    assert capsys.readouterr().err == f"oomph: the demo cannot go on in {trained}/mine: No space left on device\n"


def test_program_is_named_by_its_path_where_the_shell_would_not_find_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / ".venv/bin/oomph"
    program.parent.mkdir(parents=True)
    program.touch(mode=0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "executable", str(program.with_name("python")))
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert show._program() == ".venv/bin/oomph"
    monkeypatch.setattr(shutil, "which", lambda name: str(program))
    assert show._program() == "oomph"


@pytest.mark.parametrize("begun", [False, True])
def test_full_disk_is_one_sentence_before_anything_runs_and_when_it_fills_up(
    trained: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], begun: bool
) -> None:
    free = [1 << 30, 0] if begun else [0]
    monkeypatch.setattr(show.shutil, "disk_usage", lambda folder: SimpleNamespace(free=free.pop(0)))
    monkeypatch.setattr(show._Demo, "run", lambda demo: demo._undisturbed("undisturbed", show.FLOAT32, "undisturbed"))
    monkeypatch.setattr(show, "run_plain", lambda *words: ChildEnding(1, 1.0, ""))
    assert cli.main(["demo", "--keep", "mine"]) == 1
    assert capsys.readouterr().err == f"oomph: the demo needs 64 MiB of free disk, and {trained}/mine has less\n"
    assert free == []
