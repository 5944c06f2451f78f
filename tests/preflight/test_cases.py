"""Scripts with one mistake each: it is named, and the corrected twin gets no error."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "cases"
FILES = sorted(FOLDER.rglob("*.py"))
GROUP = 20
SECONDS = 600
ENVIRON = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}


@cache
def found_in(group: int, which: str) -> dict[Path, dict[str, object]]:
    """What the rules find in each script of a group, which one child runs."""
    files = FILES[group * GROUP : (group + 1) * GROUP]
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("many.py")), which, *map(str, files)],
        capture_output=True, text=True, timeout=SECONDS, env={**os.environ, **ENVIRON}, cwd=FOLDER,
    )  # fmt: skip
    documents = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(documents) == len(files), done.stderr[-2000:]
    return {Path(document["file"]): document for document in documents}


def expected_of(file: Path) -> set[str]:
    """The names of the rules that may name the mistake: the second line of the script."""
    match = re.fullmatch(r"# finds: (.+)", file.read_text().splitlines()[1])
    assert match is not None, file
    return {name.strip() for name in match[1].split(",")}


def cases(which: str) -> list[object]:
    return [pytest.param(n // GROUP, file, id=f"{file.stem}-{which}") for n, file in enumerate(FILES)]


@pytest.mark.parametrize(("group", "file"), cases("wrong"))
def test_the_mistake_is_named(group, file):
    found = found_in(group, "wrong")[file]
    named = {*found["errors"], *found["warnings"]}
    assert not found["ended"]
    assert named & expected_of(file), found["messages"]
    assert not found["broken"]


@pytest.mark.parametrize(("group", "file"), cases("right"))
def test_the_corrected_twin_gets_no_error(group, file):
    found = found_in(group, "right")[file]
    assert not found["ended"]
    assert not found["errors"], found["messages"]
    assert not {*found["warnings"]} & expected_of(file), found["messages"]
    assert not found["broken"]
