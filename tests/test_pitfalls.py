"""Every pitfall on the pitfalls page lists tests, and those tests exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PAGE = (TESTS.parent / "docs" / "explanation" / "pitfalls.md").read_text()
NAME = re.compile(r"`([a-z_/]+/test_\w+\.py)::(test_\w+)`")
ROWS = re.findall(r"^\| (\d+) \| (.+?) \| (.+) \|$", PAGE, re.MULTILINE)


@cache
def defined_in(file: str) -> frozenset[str]:
    module = ast.parse((TESTS / file).read_text())
    return frozenset(node.name for node in module.body if isinstance(node, ast.FunctionDef))


def test_each_pitfall_has_tests():
    assert [int(number) for number, _, _ in ROWS] == list(range(1, 35))
    for number, _, tests in ROWS:
        assert NAME.findall(tests), number
        assert NAME.sub("", tests).strip(", ") == "", f"{number} names something that is no test"


@pytest.mark.parametrize(("file", "name"), sorted(set(NAME.findall(PAGE))))
def test_every_test_mentioned_on_the_pitfalls_page_exists(file, name):
    assert name in defined_in(file)
