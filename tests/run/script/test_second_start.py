"""Scripts that plain Python cannot start twice, killed by a real kill -9: helped, or reported with line and fix."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from oomph.explain.catalogue.catalogue import find
from oomph.journal.events import StoppedAt
from oomph.journal.journal import read_journal
from oomph.protocol.not_restartable import NAME, refuses, why_not_restartable
from oomph.run.policy.examination import Trail, examine

_KILLED_ONCE = """
if not os.path.exists("killed"):
    open("killed", "w").close()
    os.kill(os.getpid(), signal.SIGKILL)
"""
# What oomph's TensorFlow code does in a real script: report that training has started.
_TRAINS = """
from oomph.journal.events import FitStarted, LoopSeen
from oomph.journal.journal import Journal
from oomph.protocol.handover import Handover
handover = Handover.read()
Journal(handover.path, handover.attempt, "script").write(FitStarted(fit=0, guard="exact"))
"""
_HEAD = "import os, pathlib, shutil, signal, subprocess, sys\nfrom pathlib import Path\n"

HELPED = {
    "makedirs": 'os.makedirs("out/deep")',
    "makedirs strictly": 'os.makedirs("out", exist_ok=False)',
    "mkdir": 'os.mkdir("out")',
    "mkdir bytes": 'os.mkdir(b"out")',
    "from os import mkdir": 'from os import mkdir\nmkdir("out")',
    "Path.mkdir": 'Path("out").mkdir()',
    "Path.mkdir parents": 'Path("out/deep").mkdir(parents=True)',
    "open x": 'with open("log", "x") as f: f.write("line")\nassert open("log").read() == "line"',
    "open x binary": 'f = open(Path("log"), mode="xb", buffering=0)\nf.write(b"1")\nassert f.tell() == 1',
    "Path.open x": 'with Path("log").open("x", encoding="utf-8") as f: f.write("line")',
    "touch": 'Path("flag").touch(exist_ok=False)',
    "os.open": 'f = os.open("lock", os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)\nos.write(f, b"x")\n'
    'assert os.path.getsize("lock") == 1',
    "symlink": 'os.symlink("somewhere", "latest")',
    "Path.symlink_to": 'Path("latest").symlink_to("somewhere")',
    "link": 'Path("data").write_text("1")\nos.link("data", "hard")',
    "copytree": 'os.makedirs("src/a", exist_ok=True)\nPath("src/a/f").write_text("1")\nshutil.copytree("src", "copy")',
    "loop": 'for i in range(3): os.makedirs(f"out/{i}")',
    "in a function, in another folder": "def run(name):\n    os.mkdir(name)\n"
    'os.makedirs("w", exist_ok=True)\nos.chdir("w")\nrun("a")\nrun("b")\nos.chdir("..")',
    "file put in place": 'open("state", "x").close()\nPath("new").write_text("1")\nos.replace("new", "state")',
}


@pytest.mark.parametrize("creates", HELPED.values(), ids=HELPED)
def test_folder_or_file_from_an_earlier_attempt_can_be_recreated(work, creates):
    work.script(f"{_HEAD}{creates}\n{_KILLED_ONCE}\nprint('through')")
    plain = subprocess.run([sys.executable, "train.py"], cwd=_fresh(work, "plain"), capture_output=True, timeout=60)
    assert plain.returncode == -9
    plain = subprocess.run([sys.executable, "train.py"], cwd=work.folder / "plain", capture_output=True, timeout=60)
    assert b"FileExistsError" in plain.stderr, "plain Python has no trouble with it"
    ended = work.run("train.py")
    assert ended.returncode == 0, ended.stderr.decode()
    assert ended.stdout == b"through\n"
    assert b"already exists from an earlier attempt, and counts as created" in ended.stderr
    assert work.document("summary.json")["restarts"] == 1
    assert [event for event in read_journal(work.run_dir) if event.name == "created-before"]


def _fresh(work, name: str) -> Path:
    (work.folder / name).mkdir()
    (work.folder / name / "train.py").write_text((work.folder / "train.py").read_text())
    return work.folder / name


FAILS_ALL_THE_SAME = {
    "twice the same folder": 'os.mkdir("out")\n{killed}\nos.mkdir("out")',
    "twice at one line": 'def make():\n    os.mkdir("out")\nmake()\n{killed}\nmake()',
    "made by another process": 'if not os.path.exists("killed"): subprocess.run(["mkdir", "out"])\n'
    '{killed}\nos.mkdir("out")',
    "taken away and made by another": 'os.mkdir("out")\nopen("x", "w").close()\nif os.path.exists("killed"): pass\n'
    'else:\n    subprocess.run("mv out old; mkdir out", shell=True)\n{killed}',
}


@pytest.mark.parametrize("body", FAILS_ALL_THE_SAME.values(), ids=FAILS_ALL_THE_SAME)
def test_file_exists_error_about_a_foreign_file_is_shown(work, body):
    work.script(_HEAD + body.replace("{killed}", _KILLED_ONCE))
    ended = work.run("train.py")
    assert ended.returncode in (1, 93), ended.stderr.decode()
    assert b"\nFileExistsError: [Errno 17] File exists: 'out'\n" in ended.stderr


@pytest.mark.parametrize("body", list(FAILS_ALL_THE_SAME.values())[:3], ids=list(FAILS_ALL_THE_SAME)[:3])
def test_error_unrelated_to_the_restart_is_attributed_to_the_script(work, body):
    work.script(_HEAD + body.replace("{killed}", _KILLED_ONCE))
    assert work.run("train.py").returncode == 1
    assert work.document("summary.json")["faults"] == {"killed": 1, "unrelated": 1}


@pytest.mark.parametrize("attempts", [1, 2])
def test_folder_older_than_the_run_is_never_reused(work, attempts):
    (work.folder / "out").mkdir()
    kill = _KILLED_ONCE if attempts == 2 else ""
    work.script(f'{_HEAD}{kill}\nos.makedirs("out")\nprint("through")')
    ended = work.run("train.py")
    assert (ended.returncode, ended.stdout) == (1, b"")
    assert "unrelated" in work.document("summary.json")["faults"]


def test_folders_created_by_child_processes_cannot_be_recreated(work):
    child = 'import os; os.mkdir("by-child")'
    work.script(f'{_HEAD}subprocess.run([sys.executable, "-c", {child!r}], check=True)\n{_KILLED_ONCE}')
    ended = work.run("train.py")
    assert ended.returncode == 1
    assert b"by-child" in ended.stderr


def test_folders_created_by_a_fork_cannot_be_recreated(work):
    fork = 'if os.fork() == 0:\n    os.mkdir("by-fork")\n    os._exit(0)\nassert os.wait()[1] == 0'
    work.script(f"{_HEAD}{fork}\n{_KILLED_ONCE}")
    ended = work.run("train.py")
    assert b"by-fork" in ended.stderr
    assert b"AssertionError" in ended.stderr


def test_resumed_run_can_recreate_its_folders(work):
    work.script(f'{_HEAD}os.mkdir("out")\nif len(sys.argv) > 1: os.kill(os.getpid(), signal.SIGTERM)\nprint("through")')
    (work.folder / "first.py").write_text("x")
    ended = work.run("train.py", "stop")
    assert ended.returncode == 143
    text = (work.folder / "train.py").read_text()
    work.script("\n\n" + text.replace("len(sys.argv) > 1", "False"))  # moved by two lines, which does no harm
    ended = work.run(f"--resume={work.run_dir}", "train.py", "stop")
    assert (ended.returncode, ended.stdout) == (0, b"through\n"), ended.stderr.decode()


def test_first_attempt_leaves_builtin_functions_unreplaced(work):
    work.script(f'{_HEAD}os.mkdir("out")\nprint(type(open).__name__, type(os.mkdir).__name__, type(sys.exit).__name__)')
    assert work.run("train.py").stdout.split() == [b"builtin_function_or_method"] * 3


def test_restart_replaces_only_functions_with_recorded_creations(work):
    work.script(f'{_HEAD}os.mkdir("out")\n{_KILLED_ONCE}\nprint(type(open).__name__, type(os.mkdir).__name__)')
    assert work.run("train.py").stdout.split()[0] == b"builtin_function_or_method"


IMPOSSIBLE = {
    "raise": (
        'if os.path.exists("out"):\n    raise RuntimeError("will not touch it")\nos.mkdir("out")',
        'train.py:4, `raise RuntimeError("will not touch it")` ends with RuntimeError: will not touch it; let it',
    ),
    "assert": ('assert not os.path.exists("out")\nos.mkdir("out")', "train.py:3"),
    "words alone": (
        'if Path("out").is_dir():\n    print()\n    print()\n    print()\n    print()\n'
        '    raise ValueError("out already exists")\nos.mkdir("out")',
        "ValueError: out already exists",
    ),
    "sys.exit": (
        'if os.path.exists("out"):\n    sys.exit("out exists, remove it first")\nos.mkdir("out")',
        'train.py:4, `sys.exit("out exists, remove it first")` ends with out exists, remove it first;',
    ),
    "SystemExit": (
        'if os.path.exists("out"):\n    raise SystemExit("out already exists")\nos.mkdir("out")',
        "it ends with out already exists;",
    ),
    "argparse": (
        'import argparse\nif os.path.exists("out"):\n    argparse.ArgumentParser().error("out exists already")\n'
        'os.mkdir("out")',
        "train.py:5, `argparse.ArgumentParser().error",
    ),
    "input": (
        'if os.path.exists("out"):\n    input("overwrite? ")\nos.mkdir("out")',
        "EOFError: EOF when reading a line; take the answer from an option, not from input(), then --resume",
    ),
    "sqlite": (
        'import sqlite3\ndb = sqlite3.connect("db")\ndb.execute("create table t (a int)")\ndb.commit()',
        "OperationalError: table t already exists; write CREATE TABLE IF NOT EXISTS, then --resume",
    ),
    "another line": (
        'if os.path.exists("killed"):\n    os.mkdir("out", 0o700)\nelse:\n    os.mkdir("out")',
        "train.py:4, `os.mkdir(\"out\", 0o700)` ends with FileExistsError: [Errno 17] File exists: 'out'; write os.m",
    ),
    "made by a shell": (
        'subprocess.run(["mkdir", "out"], check=False)\n'
        'if os.path.exists("killed"): shutil.copytree("data", "out")',
        "pass dirs_exist_ok=True",
    ),
    "rename": (
        'os.makedirs("tmp")\nopen("tmp/a", "w").close()\nos.rename("tmp", "out")',
        "Directory not empty: 'tmp' -> 'out'; first remove the file or folder that is already there",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("body", "said"), IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_unrestartable_script_is_reported_with_line_and_remedy(work, body, said):
    (work.folder / "data").mkdir()
    work.script(f"{_HEAD}{body}\n{_TRAINS}\n{_KILLED_ONCE}")
    ended = work.run("--run-dir=run", "train.py")
    assert ended.returncode == 93, ended.stderr.decode()
    summary = work.document("summary.json", work.folder / "run")
    assert (summary["faults"], summary["attempts"]) == ({"killed": 1, NAME: 1}, 2)
    assert summary["gave_up"].startswith("the script cannot be started a second time: ")
    assert said in summary["gave_up"]
    assert summary["gave_up"] in ended.stderr.decode()
    explained = subprocess.run(
        [sys.executable, "-m", "oomph", "explain", "run"], cwd=work.folder, capture_output=True, text=True, timeout=60
    )
    assert f"1. {NAME} (CRS205)" in explained.stdout


def test_first_start_error_is_not_blamed_on_a_restart(work):
    (work.folder / "out").mkdir()
    for body, _ in list(IMPOSSIBLE.values())[:5]:
        work.script(f"{_HEAD}{body}\n{_TRAINS}")
        ended = work.run("--run-dir", f"run{len(os.listdir(work.folder))}", "train.py")
        assert ended.returncode == 1
        assert b"second time" not in ended.stderr


def test_run_resumes_after_the_script_is_corrected(work):
    body = 'if os.path.exists("out"):\n    raise RuntimeError("out exists")\nos.mkdir("out")'
    work.script(f"{_HEAD}{body}\n{_TRAINS}\n{_KILLED_ONCE}")
    assert work.run("train.py").returncode == 93
    assert work.document("run.json")["status"] == "gave-up"
    work.script(f'{_HEAD}os.makedirs("out", exist_ok=True)\nprint("through")')
    ended = work.run("--resume", "train.py")
    assert (ended.returncode, ended.stdout) == (0, b"through\n")


def test_unrelated_error_at_a_restart_is_attributed_to_the_script(work):
    trains = _TRAINS.replace('FitStarted(fit=0, guard="exact")', "LoopSeen()")
    work.script(f"{_HEAD}{trains}\nif os.path.exists('killed'): [][1]\n{_KILLED_ONCE}")
    ended = work.run("train.py")
    assert ended.returncode == 1
    assert "unrelated" in work.document("summary.json")["faults"]


STOPPED = {
    "type": "FileExistsError",
    "message": "[Errno 17] File exists: 'out'",
    "site": "t.py:3",
    "source": 'os.makedirs("out")',
}


@pytest.mark.parametrize(
    ("change", "further", "is_named"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"created": "before"}, False, True),
        ({"created": "now"}, True, False),
        ({"type": "KeyError", "message": "'a'", "source": "x['a']"}, True, False),
        ({"type": "RuntimeError", "message": "no", "refuses": True}, True, True),
        ({"type": "RuntimeError", "message": "no", "refuses": True}, False, False),
        ({"type": "RuntimeError", "message": "no", "refuses": False}, True, False),
        ({"type": "SystemExit", "message": "1", "source": "sys.exit(1)"}, True, False),
    ],
)
def test_recorded_facts_determine_whether_a_script_can_be_restarted(change, further, is_named):
    assert bool(why_not_restartable(StoppedAt(**{**STOPPED, **change}), "", further)) is is_named


@pytest.mark.parametrize(
    ("source", "before", "refusing"),
    [
        ("raise RuntimeError('no')", "if os.listdir(out):\n", True),
        ("if out.exists(): raise RuntimeError('no')", "", True),
        ("assert not os.path.exists(out), 'there'", "", True),
        ("sys.exit(1)", "if out.is_dir() and any(out.iterdir()):\n    print('there')\n", True),
        ("raise RuntimeError('no data')", "if not os.path.exists(data):\n", False),
        ("raise FileNotFoundError(data)", "if os.path.exists(other):\n", False),
        ("model.load_weights(path)", "if os.path.exists(path):\n", False),
        ("raise RuntimeError('no')", "x = 1\n", False),
    ],
)
def test_line_that_refuses_a_restart_is_distinguished_from_a_failing_one(source, before, refusing):
    assert refuses(source, before) is refusing


def test_error_at_an_unknown_location_is_judged_by_its_message(tmp_path):
    assert why_not_restartable(StoppedAt(), "error: the folder already exists", True).startswith("the script cannot be")
    assert why_not_restartable(StoppedAt(), "Killed", True) == ""


def trail(**changes):
    from oomph.journal.journal import Event

    facts = {"returncode": 1, "oom_kills": 0, "stderr": b"", "stopped": False, "progress": None, "again": True}
    return Trail(**{**facts, "went_further": True, "events": [Event(StoppedAt(**STOPPED))], **changes})


def test_requested_exit_is_not_a_refusal():
    assert examine(trail())[1].gave_up
    assert examine(trail())[0][0].code == find(NAME).code
    for changes in ({"stopped": True}, {"hung": True}, {"again": False}, {"returncode": -9}, {"returncode": 0}):
        names, ending = examine(trail(**changes))
        assert not ending.gave_up
        assert NAME not in [named.name for named in names]
