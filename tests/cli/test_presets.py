"""Presets from `[tool.oomph]` and `OOMPH_*`: which applies, what is said, what a file from elsewhere cannot do."""

from __future__ import annotations

import importlib
import os
import re
from pathlib import Path

import pytest

import oomph
from oomph import cli
from oomph.cli import presets
from oomph.cli.presets import PRESETS
from oomph.protocol.handover import Guarding
from oomph.run.report.summary import summarise
from oomph.run.supervisor import launch as launching
from oomph.run.supervisor.closing import RunOutcome
from oomph.run.supervisor.launch import Request

SOURCE = Path(oomph.__file__).parent


@pytest.fixture(autouse=True)
def _project(tmp_path, monkeypatch):
    for name in list(os.environ):
        if name.startswith("OOMPH_"):
            monkeypatch.delenv(name)
    (tmp_path / "project/src").mkdir(parents=True)
    (tmp_path / "project/src/train.py").write_text("")
    monkeypatch.chdir(tmp_path / "project/src")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Request]:
    """Return what `oomph run` requests, without actually running anything."""
    requests: list[Request] = []

    def launch(request: Request) -> RunOutcome:
        requests.append(request)
        return RunOutcome(0, summarise([], 0))

    monkeypatch.setattr(launching, "launch", launch)
    return requests


def table(text: str, folder: str = "..") -> None:
    Path(folder, "pyproject.toml").write_text(f"[tool.oomph]\n{text}\n")


def test_file_above_the_script_applies_and_is_announced_once(asked, capfd):
    table('checkpoint-every = "5m"\nverify = 3\ntrust-finished-fits = true')
    assert cli.main(["run", "train.py"]) == 0
    assert asked[0].guarding == Guarding(checkpoint_seconds=300.0, verify=3, trust_finished_fits=True)
    said = capfd.readouterr().err
    assert said == "oomph: set in ../pyproject.toml: --checkpoint-every=5m, --trust-finished-fits, --verify=3\n"


def test_command_line_wins_over_the_environment_and_that_over_the_file(asked, capfd, monkeypatch):
    table('checkpoint-every = 7\ninexact = "allow"\nverify = 3\nrecheck = 4')
    monkeypatch.setenv("OOMPH_INEXACT", "refuse")
    monkeypatch.setenv("OOMPH_VERIFY", "5")
    cli.main(["run", "--verify", "9", "train.py"])
    assert asked[0].guarding == Guarding(checkpoint_steps=7, inexact="refuse", verify=9, recheck=4)
    assert capfd.readouterr().err == (
        "oomph: set in ../pyproject.toml: --checkpoint-every=7, --recheck=4\n"
        "oomph: set in the environment: OOMPH_INEXACT\n"
    )


def test_a_variable_switches_off_what_a_file_switches_on(asked, capfd, monkeypatch):
    table("trust-finished-fits = true")
    monkeypatch.setenv("OOMPH_TRUST_FINISHED_FITS", "0")
    cli.main(["run", "train.py"])
    assert asked == [Request(words=("train.py",))]
    assert capfd.readouterr().err == ""


def test_nearest_table_applies_alone(asked):
    table("verify = 3")
    table("recheck = 4", ".")
    cli.main(["run", "train.py"])
    assert asked[0].guarding == Guarding(recheck=4)


@pytest.mark.parametrize(
    "words", [["train.py"], ["-m", "train"], ["--", "python", "train.py"], ["--", "env", "A=1", "python", "train.py"]]
)
def test_every_form_of_a_script_finds_the_file(asked, words):
    table("verify = 3")
    cli.main(["run", *words])
    assert asked[0].guarding.verify == 3


def test_folder_of_the_script_counts_and_not_the_working_directory(asked, monkeypatch, tmp_path):
    table("verify = 3")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    table("verify = 8", ".")
    cli.main(["run", "../project/src/train.py"])
    assert asked[0].guarding.verify == 3


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("checkpoint_every = 3", "has an unknown key checkpoint_every: did you mean checkpoint-every?"),
        ("colour = 3\nnoise = 1", "has an unknown key colour"),
        ("verify = 3.5", ": 3.5 is not a value of --verify"),
        ("verify = true", ": True is not a value of --verify"),
        ("verify = -1", ": -1 is not a positive whole number"),
        ('verify = ["3"]', ": ['3'] is not a value of --verify"),
        ("report = 1", " expects true or false, not 1"),
        ('inexact = "maybe"', " expects one of allow, refuse, not maybe"),
        ('checkpoint-every = "often"', ": --checkpoint-every expects steps (100) or a time (30s, 5m, 1h), not often"),
        ("runs-dir = true", ": True is not a value of --runs-dir"),
        ('runs-dir = "a\\u0000"', " is not the name of a folder"),
        ('notify = "sh -c evil"', ": notify is not read from a file; set OOMPH_NOTIFY in the environment"),
        ('python = "./evil"', ": python is not read from a file; set OOMPH_PYTHON in the environment"),
        ('inexact = "\\u001b[31m\\u202e"', "expects one of allow, refuse, not \\x1b[31m\\u202e"),
    ],
)
def test_bad_key_or_value_in_a_file_is_one_sentence_and_no_run(asked, capfd, text, said):
    table(text)
    assert cli.main(["run", "train.py"]) == 2
    assert asked == []
    told = capfd.readouterr().err
    assert told.count("\n") == 1
    assert "[tool.oomph] in ../pyproject.toml" in told
    assert said in told


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("OOMPH_VERIFY", "many", "OOMPH_VERIFY: many is not a positive whole number"),
        ("OOMPH_REPORT", "perhaps", "OOMPH_REPORT expects one of 1, true, yes, on, 0, false, no, off, not perhaps"),
        ("OOMPH_COLOR", "red", "OOMPH_COLOR expects one of auto, always, never, not red"),
    ],
)
def test_bad_variable_is_named_and_stops_the_run(asked, capfd, monkeypatch, name, value, said):
    monkeypatch.setenv(name, value)
    assert cli.main(["run", "train.py"]) == 2
    assert asked == []
    assert capfd.readouterr().err == f"oomph: {said}\n"


def test_mistyped_variable_gets_a_suggestion_and_an_unset_one_is_ignored(asked, capfd, monkeypatch):
    monkeypatch.setenv("OOMPH_CHECKPOINT_EVRY", "5m")
    monkeypatch.setenv("OOMPH_VERIFY", "")
    cli.main(["run", "train.py"])
    assert asked == [Request(words=("train.py",))]
    told = capfd.readouterr().err
    assert told == "oomph: OOMPH_CHECKPOINT_EVRY has no effect: did you mean OOMPH_CHECKPOINT_EVERY?\n"


def test_unknown_variable_is_told_and_those_of_oomph_itself_are_not(asked, capfd, monkeypatch):
    monkeypatch.setenv("OOMPH_SOMETHING_ELSE", "1")
    monkeypatch.setenv("OOMPH_XLA_PYTHON", "python")
    cli.main(["run", "train.py"])
    assert asked == [Request(words=("train.py",))]
    told = capfd.readouterr().err
    assert told.startswith("oomph: OOMPH_SOMETHING_ELSE has no effect: OOMPH_* sets OOMPH_CHECKPOINT_EVERY, ")
    assert told.count("\n") == 1


@pytest.mark.parametrize("value", ["yes", "On", "1"])
def test_a_variable_switches_an_option_on_in_any_usual_word(asked, capfd, monkeypatch, value):
    monkeypatch.setenv("OOMPH_REPORT", value)
    cli.main(["run", "train.py"])
    assert "there is no report, since the run has no directory" in capfd.readouterr().err


def test_a_long_file_is_read_to_its_end_and_a_huge_one_is_ignored_in_one_line(asked, capfd):
    long = f'long = "{"x" * 2_500_000}"\n[tool.oomph]\nverify = 3\n'
    Path("../pyproject.toml").write_text(long)
    cli.main(["run", "train.py"])
    assert asked[-1].guarding.verify == 3
    capfd.readouterr()
    Path("../pyproject.toml").write_text(f"#{'x' * (17 << 20)}\n{long}")
    cli.main(["run", "train.py"])
    assert asked[-1].guarding.verify is None
    assert capfd.readouterr().err == "oomph: ../pyproject.toml is ignored: it is larger than 16 MiB\n"


@pytest.mark.parametrize("content", [b"[tool.oomph\n", b"\xff oomph", b"a = " + b"[" * 100_000 + b" # oomph"])
def test_file_that_is_not_toml_is_ignored_in_one_line(asked, capfd, content):
    Path("../pyproject.toml").write_bytes(content)
    assert cli.main(["run", "train.py"]) == 0
    assert asked == [Request(words=("train.py",))]
    told = capfd.readouterr().err
    assert told.startswith("oomph: ../pyproject.toml is ignored, since it is not valid TOML: ")
    assert told.count("\n") == 1


def test_neither_a_fifo_nor_an_endless_device_holds_up_the_run(asked, capfd):
    os.mkfifo("pyproject.toml")
    os.symlink("/dev/zero", "../pyproject.toml")
    assert cli.main(["run", "train.py"]) == 0
    assert asked == [Request(words=("train.py",))]
    assert capfd.readouterr().err == (
        "oomph: pyproject.toml is ignored: not a regular file\n"
        "oomph: ../pyproject.toml is ignored: not a regular file\n"
    )


def test_file_of_another_user_is_ignored_unless_the_script_is_theirs(asked, capfd, monkeypatch):
    table("verify = 3")
    me = os.geteuid()
    monkeypatch.setattr(presets.os, "geteuid", lambda: me + 1)
    monkeypatch.setattr(presets, "_ROOT", me + 2)
    monkeypatch.setattr(presets, "_owner_of", lambda script: me + 1)
    cli.main(["run", "train.py"])
    assert asked[-1].guarding.verify is None
    told = capfd.readouterr().err
    assert told == "oomph: [tool.oomph] in ../pyproject.toml is ignored: the file belongs to another user\n"
    monkeypatch.setattr(presets, "_owner_of", lambda script: me)
    cli.main(["run", "train.py"])
    assert asked[-1].guarding.verify == 3


def test_no_guard_leaves_out_what_needs_the_guard(asked, capfd, monkeypatch):
    table('verify = 3\ncheckpoint-every = "5m"')
    monkeypatch.setenv("OOMPH_RECHECK", "4")
    assert cli.main(["run", "--no-guard", "train.py"]) == 0
    assert asked[0].guarding == Guarding(guard=False)
    assert capfd.readouterr().err == ""


def test_rehearsed_run_sends_no_notification_and_writes_no_report(asked, monkeypatch):
    monkeypatch.setenv("OOMPH_NOTIFY", "true")
    monkeypatch.setenv("OOMPH_VERIFY", "3")
    monkeypatch.setenv("OOMPH_REHEARSAL", "{}")
    cli.main(["run", "train.py"])
    assert (asked[0].notify, asked[0].guarding.verify) == (None, 3)


def test_notification_and_python_are_named_without_their_values(asked, capfd, monkeypatch):
    monkeypatch.setenv("OOMPH_NOTIFY", "https://hooks.example/T0/secret")
    cli.main(["run", "train.py"])
    assert asked[0].notify == "https://hooks.example/T0/secret"
    assert asked[0].typed == (), "the options are stored in run.json"
    assert capfd.readouterr().err == "oomph: set in the environment: OOMPH_NOTIFY\n"


def test_colour_is_a_preset_of_every_verb_and_help_is_always_shown(capfd, monkeypatch):
    monkeypatch.setenv("OOMPH_COLOR", "always")
    table("nonsense = 1")
    assert cli.main(["run", "--help"]) == 0
    assert "\x1b[1musage:" in capfd.readouterr().out
    cli.main(["explain", "OOM101"])
    assert "\x1b[" in capfd.readouterr().out


def test_a_preset_is_an_option_of_its_verbs_and_no_variable_that_oomph_uses_itself():
    own = {
        name
        for path in SOURCE.rglob("*.py")
        if path.name != "presets.py"
        for name in re.findall(r'"(OOMPH_[A-Z_]+)"', path.read_text())
    }
    assert {preset.variable for preset in PRESETS} & own <= {"OOMPH_COLOR"}
    assert own - {"OOMPH_COLOR"} == set(presets._OWN)
    for preset in PRESETS:
        for verb in preset.verbs or cli.COMMANDS:
            module = importlib.import_module(cli.COMMANDS[verb][0])
            assert cli.parser_of(verb, module).option(preset.option) is not None, (preset.option, verb)


# -- the folder of runs -----------------------------------------------------------------------------------------------


@pytest.fixture
def runs_dir(tmp_path) -> Path:
    """Train once with `runs-dir` in the project's file, and return the run directory."""
    Path("train.py").write_text("print('trained')")
    table('runs-dir = "../kept/runs"')
    assert cli.main(["run", "train.py"]) == 0
    [run] = (tmp_path / "kept/runs/.oomph/runs").iterdir()
    return run


def test_folder_in_a_file_is_relative_to_it_and_holds_the_runs(runs_dir):
    assert {path.name for path in runs_dir.iterdir()} >= {"run.json", "journal"}
    assert not Path(".oomph").exists()


@pytest.mark.parametrize("form", ["newest", "name"])
@pytest.mark.parametrize(
    "verb", ["explain", "report --format md", "watch --once", "runs", "runs prune --keep 0 --dry-run"]
)
def test_verbs_that_look_for_a_run_find_it_there(runs_dir, capfd, monkeypatch, verb, form):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    monkeypatch.setattr("sys.stdin", None)
    capfd.readouterr()
    words = [*verb.split(), *([runs_dir.name] if form == "name" else [])]
    if form == "name":
        words = [word for word in words if word not in ("--keep", "0")]
    assert cli.main(words) == 0
    shown = capfd.readouterr()
    assert runs_dir.name in shown.out or "train.py" in shown.out
    assert shown.err == ""


def test_environment_and_command_line_name_the_folder_as_seen_from_here(capfd, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("OOMPH_RUNS_DIR", "~/of-the-environment")
    cli.main(["run", "train.py"])
    cli.main(["run", "--runs-dir", "typed", "train.py"])
    cli.main(["run", "--run-dir", "one", "train.py"])
    assert len(list((tmp_path / "of-the-environment/.oomph/runs").iterdir())) == 1
    assert len(list(Path("typed/.oomph/runs").iterdir())) == 1
    assert Path("one/run.json").exists()
    capfd.readouterr()
    assert cli.main(["runs"]) == 0
    found = [line.split()[0] for line in capfd.readouterr().out.splitlines()[:-1]]
    assert sorted(word.split("/")[0] for word in found) == ["", "one", "typed"], "those here are found as well"


def test_unfinished_run_is_resumed_there_and_still_found_here(capfd, monkeypatch):
    Path("train.py").write_text("raise SystemExit(3)")
    for folder in ("", "kept"):
        monkeypatch.setenv("OOMPH_RUNS_DIR", folder)
        assert cli.main(["run", "train.py"]) == 3
    [here], [there] = Path(".oomph/runs").iterdir(), Path("kept/.oomph/runs").iterdir()
    for newer in (here, there):
        os.utime(newer / "run.json", (2e9, 2e9))
        capfd.readouterr()
        assert cli.main(["run", "--resume", "train.py"]) == 3
        assert f"run directory {newer}, attempt" in capfd.readouterr().err
        os.utime(newer / "run.json", (1e9, 1e9))


def test_folder_that_cannot_be_written_ends_the_run_before_it_starts(capfd):
    Path("file").touch()
    assert cli.main(["run", "--runs-dir", "file", "train.py"]) == 2
    assert capfd.readouterr().err == "oomph: the run directory file/.oomph/runs cannot be written: Not a directory\n"


def test_no_run_is_one_sentence_with_both_places(capfd):
    assert cli.main(["report", "--runs-dir", "missing"]) == 3
    said = "oomph: there is no run in this folder or missing: name a run directory, or train with oomph run\n"
    assert capfd.readouterr().err == said


def test_prune_obeys_no_file_of_another_user(runs_dir, capfd, monkeypatch):
    monkeypatch.setattr(presets.os, "geteuid", lambda: os.getuid() + 1)
    monkeypatch.setattr(presets, "_ROOT", os.getuid() + 2)
    capfd.readouterr()
    assert cli.main(["runs", "prune", "--keep", "0"]) == 0
    assert runs_dir.exists()
    assert "is ignored: the file belongs to another user" in capfd.readouterr().err
