"""The `oomph run` command line: which options are oomph's, which are the script's, and errors for invalid ones."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import oomph
from oomph import cli
from oomph.journal.events import AttemptStarted
from oomph.journal.journal import Journal
from oomph.protocol.handover import Guarding
from oomph.protocol.profile_window import ProfileWindow
from oomph.run.directory.run_directory import RunDirectory, RunRecord
from oomph.run.report.summary import summarise
from oomph.run.supervisor import launch as launching
from oomph.run.supervisor.closing import RunOutcome
from oomph.run.supervisor.launch import Request

LIMIT = 60
_FROM_STDIN = "oomph: a script from standard input cannot be started a second time: save it to a file\n"
_RESUME_OF_A_FILE = "oomph: train.py is a file, not a run directory; --resume=DIR expects a run directory\n"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Request]:
    """Return what `oomph run` requests from the library, without actually running anything."""
    requests: list[Request] = []

    def launch(request: Request) -> RunOutcome:
        requests.append(request)
        return RunOutcome(7, summarise([], 7))

    monkeypatch.setattr(launching, "launch", launch)
    return requests


def test_all_arguments_after_the_script_are_passed_to_it(asked):
    code = cli.main(["run", "--run-dir", "d", "train.py", "--run-dir", "x", "--help", "--", "-m", ""])
    assert code == 7
    assert asked[0].words == ("train.py", "--run-dir", "x", "--help", "--", "-m", "")
    assert asked[0].run_dir == "d"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["-m", "package.train", "-v"], ("-m", "package.train", "-v")),
        (["--", "bash", "-c", "python train.py"], ("--", "bash", "-c", "python train.py")),
        (["--json", "--", "python", "train.py", "--json"], ("--", "python", "train.py", "--json")),
        (["--resume", "train.py"], ("train.py",)),
        (["--python", "py", "train.py", "--python", "q"], ("train.py", "--python", "q")),
        ([], ()),
    ],
)
def test_script_arguments_are_separated_from_oomph_options(asked, words, expected):
    cli.main(["run", *words])
    assert asked[0].words == expected


def test_every_run_option_reaches_the_request(asked):
    options = ["--run-dir=d", "--resume=r", "--python", "py", "--no-guard", "--checkpoint-every=5m", "--micro-batch=8"]
    cli.main(["run", *options, "train.py"])
    assert asked == [
        Request(
            words=("train.py",),
            run_dir="d",
            resume="r",
            python="py",
            guarding=Guarding(guard=False, checkpoint_seconds=300.0, micro_batch=8),
        )
    ]


def test_options_without_effect_under_no_guard_are_reported(asked, capfd):
    assert cli.main(["run", "--no-guard", "--micro-batch", "8", "--checkpoint-every", "5m", "train.py"]) == 7
    assert capfd.readouterr().err == "oomph: without the guard, --checkpoint-every and --micro-batch have no effect\n"


@pytest.mark.parametrize("words", [("--resume=",), ("--run-dir=",), ("--python=",), ("--run-dir", "")])
def test_missing_option_value_is_reported(asked, capfd, words):
    """Otherwise, `--resume="$UNSET"` would start over at every requeue."""
    assert cli.main(["run", *words, "train.py"]) == 2
    assert asked == []
    said = capfd.readouterr().err
    assert said == f"oomph: {words[0]} has no value: give it one, or leave it out (is a variable unset?)\n"


def oomph_run(shell: str, folder: Path) -> subprocess.CompletedProcess[str]:
    words = ["sh", "-c", shell.replace("oomph", f"{sys.executable} -m oomph")]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=LIMIT)


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_descriptor_is_never_reused_for_a_run_file(tmp_path, closed):
    (tmp_path / "train.py").write_text(
        "import os, sys\ntry:\n    read = os.read(0, 99)\nexcept OSError:\n    read = b''\n"
        "print('printed', flush=True)\nopen('told', 'wb').write(read)\n"
    )
    ended = oomph_run(f"oomph run --run-dir=run train.py {closed}", tmp_path)
    assert ended.returncode == 0
    assert (tmp_path / "told").read_bytes() == b""
    assert (tmp_path / "run" / "lock").read_text().startswith(tuple("0123456789"))
    kept = [path for path in (tmp_path / "run").rglob("*") if path.is_file() and path.name != "stderr"]
    assert len(kept) >= 4
    assert all(b"printed" not in path.read_bytes() for path in kept)
    assert all(b"oomph: " not in path.read_bytes() for path in kept)


@pytest.mark.parametrize("verb", ["run ../train.py", "report", "runs", "watch --once"])
def test_deleted_working_directory_is_reported_in_one_sentence(tmp_path, verb):
    (tmp_path / "train.py").write_text("print('hi')\n")
    gone = f"mkdir gone; cd gone; rmdir ../gone; oomph {verb.replace('..', str(tmp_path))}"
    ended = oomph_run(gone, tmp_path)
    assert ended.returncode == 2
    assert ended.stderr == "oomph: the working directory has been deleted: change to one that exists\n"


def test_plain_command_creates_the_default_request(asked):
    cli.main(["run", "train.py"])
    assert asked == [Request(words=("train.py",))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("100", (100, None)), ("30s", (None, 30.0)), ("1.5m", (None, 90.0)), ("1h", (None, 3600.0))],
)
def test_checkpoint_every_accepts_steps_or_seconds(asked, text, expected):
    cli.main(["run", "--checkpoint-every", text, "train.py"])
    assert (asked[0].guarding.checkpoint_steps, asked[0].guarding.checkpoint_seconds) == expected


def test_profile_is_a_slice_of_steps(asked):
    cli.main(["run", "--profile", "100:110", "train.py", "--profile", "x"])
    assert asked[0].guarding.profile == ProfileWindow(100, 110)
    assert asked[0].words == ("train.py", "--profile", "x")


@pytest.mark.parametrize(
    "words",
    [
        ["--checkpoint-every", "0", "train.py"],
        ["--checkpoint-every", "often", "train.py"],
        ["--checkpoint-every", "1.5", "train.py"],
        ["--micro-batch", "0", "train.py"],
        ["--micro-batch", "many", "train.py"],
        ["--no-such-option", "train.py"],
        ["--no-guard", "--verify", "3", "train.py"],
        ["--no-guard", "--recheck", "3", "train.py"],
        ["--no-guard", "--profile", "1:3", "train.py"],
        ["--profile", "5:3", "train.py"],
        ["--profile", "0:50000", "train.py"],
        ["--profile", "ten", "train.py"],
        ["--run-dir"],
    ],
)
def test_invalid_option_values_exit_with_2(asked, capfd, words):
    assert cli.main(["run", *words]) == 2
    assert asked == []
    assert words[0] in capfd.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["missing.py"], "oomph: no such script: missing.py\n"),
        (["."], "oomph: . is a directory without a __main__.py, not a script\n"),
        (["--python", "/no/python", "train.py"], "oomph: no such Python: /no/python\n"),
        (["--", "/no/program"], "oomph: no such command: /no/program\n"),
        ([], "oomph: specify the script to run: oomph run train.py\n"),
        (["-"], _FROM_STDIN),
        (["--", "python3", "-"], _FROM_STDIN),
        (["--", "env", "A=1", "python3", "-u", "-X", "dev"], _FROM_STDIN),
        (["--", sys.executable], _FROM_STDIN),
        (["--run-dir", "train.py/x", "train.py"], None),
        (["--resume=train.py", "train.py"], _RESUME_OF_A_FILE),
        (["--resume=/sys/x", "train.py"], None),
    ],
)
def test_command_that_cannot_be_run_exits_with_2_and_a_one_line_error(tmp_path, monkeypatch, capfd, words, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("print('never')")
    assert cli.main(["run", *words]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err == message or (message is None and err.count("\n") == 1)
    assert not (tmp_path / ".oomph").exists()


def test_json_is_a_single_document_after_the_script_output(tmp_path):
    (tmp_path / "train.py").write_text("print('own words')")
    result = _oomph(tmp_path, "run", "--json", "train.py")
    own, _, document = result.stdout.partition("\n")
    assert own == "own words"
    summary: dict[str, Any] = json.loads(document)
    assert (summary["schema"], summary["exit_code"], summary["attempts"]) == (1, 0, 1)
    assert summary == json.loads(next(tmp_path.glob(".oomph/runs/*/summary.json")).read_text())


def test_help_shows_an_example_and_options_in_groups(capfd):
    assert cli.main(["run", "--help"]) == 0
    text = capfd.readouterr().out
    assert "example: oomph run" in text
    titles = [line for line in text.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert titles == [
        "the run:",
        "checkpoints and resume:",
        "memory and micro-batches:",
        "checks:",
        "what alters the mathematics:",
        "reports:",
        "for every verb:",
    ]


def test_bare_command_shows_help_version_and_usage(capfd):
    assert cli.main(["--help"]) == 0
    text = capfd.readouterr().out
    assert [verb for verb in cli.COMMANDS if verb not in text] == []
    assert cli.main(["--version"]) == 0
    assert capfd.readouterr().out == f"oomph {oomph.__version__}\n"
    assert cli.main([]) == 2
    assert "usage" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("verb", "hint"),
    [
        ("rum", "did you mean run?"),
        ("train.py", "type oomph run train.py"),
        ("zzz", "unknown verb zzz: the verbs are run, doctor"),
    ],
)
def test_unknown_verb_gets_a_suggestion(capfd, verb, hint):
    assert cli.main([verb]) == 2
    assert hint in capfd.readouterr().err


def test_unknown_option_gets_a_suggestion(capfd):
    assert cli.main(["run", "--rechek=5", "train.py"]) == 2
    assert "unrecognized arguments: --rechek=5: did you mean --recheck?\n" in capfd.readouterr().err


@pytest.mark.parametrize(
    "option", ["--epochs=3", "--lr", "--model", "--steps", "--data", "--batch-size", "--zzzzzz", "-v"]
)
def test_misplaced_script_option_gets_no_suggestion(capfd, option):
    for verb in ("run", "check", "rehearse") if option != "--steps" else ("run",):
        assert cli.main([verb, option, "3", "train.py"]) == 2
        told = capfd.readouterr().err
        assert "did you mean" not in told
        assert told.endswith(f"unrecognized arguments: {option}; the script's own options belong after the script\n")


def test_help_followed_by_a_verb_prints_its_help(capfd):
    assert cli.main(["help", "run"]) == 0
    asked = capfd.readouterr().out
    assert cli.main(["run", "--help"]) == 0
    assert capfd.readouterr().out == asked
    assert cli.main(["help", "rum"]) == 2
    assert "did you mean run?" in capfd.readouterr().err


def test_summary_of_each_verb_matches_its_module():
    for module, summary in cli.COMMANDS.values():
        if module.endswith("demo") and importlib.util.find_spec(module) is None:
            continue
        said = importlib.import_module(module).SUMMARY
        assert said == summary


def test_general_help_does_not_import_verb_modules(tmp_path):
    code = "import sys, oomph.cli as c; c.main(['--help']); print([m for m in sys.modules if m.startswith('oomph.')])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=_environ(), timeout=LIMIT)
    rooms = {
        "cli": ("output", "parser"),
        "files": ("patterns",),
        "redaction": ("redaction", "secret_forms"),
        "terminal": ("console", "message", "screen", "wrapping"),
    }
    modules = {f"oomph.{room}.{name}" for room, names in rooms.items() for name in names}
    needed = modules | {"oomph.errors", *(f"oomph.{room}" for room in rooms)}
    assert set(ast.literal_eval(result.stdout.splitlines()[-1])) == needed


def _environ() -> dict[str, str]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("OOMPH_", "PYTHON"))}
    return {**clean, "PYTHONPATH": str(Path(oomph.__file__).parents[1])}


def _oomph(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "oomph", *words],
        cwd=folder,
        env=_environ(),
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )


def test_report_is_written_at_the_end_and_cannot_change_the_exit_code(monkeypatch, capsys, tmp_path):
    run_dir = tmp_path / "run"
    record = RunRecord(("train.py",), "python", str(tmp_path), "2026-01-01T00:00:00+0000")
    RunDirectory.create(run_dir, record).close()
    journal = Journal(run_dir, 1, "supervisor")
    journal.write(AttemptStarted())
    journal.close()
    monkeypatch.setattr(launching, "launch", lambda request: RunOutcome(7, summarise([], 7), run_dir))
    assert cli.main(["run", "--report", "train.py"]) == 7
    assert capsys.readouterr().err == f"oomph: the report is in {run_dir}/report.html\n"
    assert "<!doctype html>" in (run_dir / "report.html").read_text()
    shutil.rmtree(run_dir)
    assert cli.main(["run", "--report", "train.py"]) == 7
    assert capsys.readouterr().err.startswith("oomph: the report could not be written: ")
    monkeypatch.setattr(launching, "launch", lambda request: RunOutcome(0, summarise([], 0)))
    assert cli.main(["run", "--report", "train.py"]) == 0
    assert capsys.readouterr().err == "oomph: there is no report, since the run has no directory\n"
