"""The modules of oomph/cli stay small."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import oomph.cli

MODULES = sorted(Path(oomph.cli.__file__).parent.glob("*.py"))
SOURCE = Path(oomph.cli.__file__).parents[1]
LONGEST_FUNCTION, LONGEST_MODULE = 60, 350


def lengths(module: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.FunctionDef):
            yield node.name, (node.end_lineno or node.lineno) - node.lineno + 1


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.stem)
def test_modules_and_functions_do_not_exceed_their_length_limits(module: Path) -> None:
    assert len(module.read_text().splitlines()) <= LONGEST_MODULE
    assert [(name, length) for name, length in lengths(module) if length > LONGEST_FUNCTION] == []


@pytest.mark.parametrize("package", ["cli", "demo", "rehearse"])
def test_no_module_writes_the_message_prefix_itself(package: str) -> None:
    for module in (SOURCE / package).rglob("*.py"):
        constants = [node.value for node in ast.walk(ast.parse(module.read_text())) if isinstance(node, ast.Constant)]
        assert not [text for text in constants if isinstance(text, str) and text.startswith("oomph: ")]
