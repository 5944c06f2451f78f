"""Scripts with one mistake each: it is reported, and the corrected twin gets no error. Healthy ones get no message."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
CASES = sorted((FOLDER / "cases").glob("*.py"))
HEALTHY = sorted((FOLDER / "healthy").glob("*.py"))
MISSED = sorted((FOLDER / "missed").glob("*.py"))
"""Mistakes that no rule detects: what the data means, or what happens after the first step of a loop."""
QUICK, QUICK_HEALTHY = 30, 9
"""One in this many cases and healthy scripts runs in `make test`, and all of them in `make test-all`."""
MARKS = ("wrong", "right")
SECONDS = 900
ENVIRON = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}


@cache
def found_in(files: tuple[Path, ...], which: str) -> dict[Path, dict[str, object]]:
    """Return what the rules find in each of these scripts, which one child runs."""
    done = subprocess.run(
        [sys.executable, str(FOLDER / "many.py"), which, *map(str, files)],
        capture_output=True, text=True, timeout=SECONDS, env={**os.environ, **ENVIRON}, cwd=FOLDER,
    )  # fmt: skip
    documents = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(documents) == len(files), done.stderr[-2000:]
    return {Path(document["file"]): document for document in documents}


def expected_of(file: Path) -> set[str]:
    """Return the rules that may report the mistake, from a comment at the top of the script."""
    match = re.search(r"^# finds: (.+)$", file.read_text(), re.MULTILINE)
    assert match is not None, file
    return {name.strip() for name in match[1].split(",")}


def groups(scripts: list[Path], one_of: int) -> list[object]:
    """Yield each script with those that share its child: one in this many quickly, the others in the slow lane."""
    quick = tuple(scripts[::one_of])
    rest = [file for file in scripts if file not in quick]
    alone = [file for file in rest if "set_logical_device_configuration" in file.read_text()]
    rest = [file for file in rest if file not in alone]
    slow = [(file,) for file in alone] + [tuple(rest[start : start + 30]) for start in range(0, len(rest), 30)]
    found = [pytest.param(quick, file, id=file.stem) for file in quick]
    return found + [
        pytest.param(files, file, id=file.stem, marks=[pytest.mark.slow, pytest.mark.timeout(SECONDS)])
        for files in slow
        for file in files
    ]


@pytest.mark.parametrize(("files", "file"), groups(CASES, QUICK))
def test_script_with_a_mistake_gets_its_finding(files, file):
    found = found_in(files, "wrong")[file]
    named = {*found["errors"], *found["warnings"]}
    assert not found["ended"]
    assert named & expected_of(file), found["messages"]
    assert not found["broken"]


@pytest.mark.parametrize(("files", "file"), groups(CASES, QUICK))
def test_corrected_script_gets_no_error(files, file):
    found = found_in(files, "right")[file]
    assert not found["ended"]
    assert not found["errors"], found["messages"]
    assert not {*found["warnings"]} & expected_of(file), found["messages"]
    assert not found["broken"]


@pytest.mark.parametrize(("files", "file"), groups(HEALTHY, QUICK_HEALTHY))
def test_healthy_training_gets_no_message(files, file):
    found = found_in(files, "right")[file]
    assert (found["ended"], found["messages"], found["broken"]) == ("", [], [])


@pytest.mark.slow
@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize("file", MISSED, ids=lambda path: path.stem)
def test_known_missed_mistake_gets_no_other_finding(file):
    for which in MARKS:
        found = found_in(tuple(MISSED), which)[file]
        assert (found["ended"], found["messages"], found["broken"]) == ("", [], [])


def test_nine_tenths_of_at_least_120_mistakes_are_found():
    assert len(CASES) >= 120
    assert len(CASES) / (len(CASES) + len(MISSED)) >= 0.9
