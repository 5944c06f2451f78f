"""--color applies to everything oomph prints, including help and option-parsing errors."""

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
def test_color_never_disables_colors(words: list[str]) -> None:
    at = 2 if words[0] == "help" else 1
    assert "\x1b[" in terminal(words)
    assert "\x1b[" not in terminal([*words[:at], "--color=never", *words[at:]])


@pytest.mark.parametrize("words", ENDS, ids=" ".join)
def test_color_always_forces_color(words: list[str]) -> None:
    at = 2 if words[0] == "help" else 1
    assert "\x1b[" in pipe([*words[:at], "--color=always", *words[at:]])


def test_color_accepts_its_value_as_a_separate_word() -> None:
    assert "\x1b[" not in terminal(["run", "--color", "never", "--bad", "x.py"])


def test_color_option_after_help_still_applies() -> None:
    assert "\x1b[" not in terminal(["explain", "--help", "--color=never"])
    assert "\x1b[" in terminal(["explain", "--help", "--color=never", "--color=auto"])


def test_color_option_after_the_script_is_left_to_the_script() -> None:
    assert "\x1b[" in terminal(["run", "--bad", "x.py", "--color=never"])
    assert "\x1b[" in terminal(["rehearse", "--bad", "--", "x.py", "--color=never"])
