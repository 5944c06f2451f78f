"""--color holds for everything that oomph prints, also for help and errors that end the reading of the options."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "terminal"))
from captures import LOGS, on_terminal

ENDS = [
    ["explain", "--help"],
    ["explain", "--bad"],
    ["explain", "--exit-status=x"],
    ["run", "--bad", "x.py"],
    ["run", "--resume=", "x.py"],
    ["rehearse", "--steps"],
    ["help", "doctor"],
    ["--help"],
    ["explain", "missing.log"],
]


def terminal(words: list[str]) -> str:
    around = {name: value for name, value in os.environ.items() if name != "NO_COLOR"} | {"TERM": "xterm"}
    return on_terminal([sys.executable, "-m", "oomph", *words], 80, LOGS, around).decode()


def pipe(words: list[str]) -> str:
    ended = subprocess.run(
        [sys.executable, "-m", "oomph", *words], cwd=LOGS, capture_output=True, text=True, timeout=60
    )
    return ended.stdout + ended.stderr


@pytest.mark.parametrize("words", ENDS, ids=" ".join)
def test_never_is_never(words: list[str]) -> None:
    at = 2 if words[0] == "help" else 1
    assert "\x1b[" in terminal(words)
    assert "\x1b[" not in terminal([*words[:at], "--color=never", *words[at:]])


@pytest.mark.parametrize("words", ENDS, ids=" ".join)
def test_always_is_always(words: list[str]) -> None:
    at = 2 if words[0] == "help" else 1
    assert "\x1b[" in pipe([*words[:at], "--color=always", *words[at:]])


def test_its_value_may_be_a_word_of_its_own() -> None:
    assert "\x1b[" not in terminal(["run", "--color", "never", "--bad", "x.py"])


def test_it_may_follow_what_ends_the_reading() -> None:
    assert "\x1b[" not in terminal(["explain", "--help", "--color=never"])
    assert "\x1b[" in terminal(["explain", "--help", "--color=never", "--color=auto"])


def test_what_follows_the_script_is_the_scripts() -> None:
    assert "\x1b[" in terminal(["run", "--bad", "x.py", "--color=never"])
    assert "\x1b[" in terminal(["rehearse", "--bad", "--", "x.py", "--color=never"])
