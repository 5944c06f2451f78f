"""`oomph explain notebook.ipynb` reads what the cells of a notebook's file printed, and the errors they raised."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from oomph.explain.diagnose import diagnose, words
from oomph.explain.reading.file import Unreadable
from oomph.explain.reading.notebook import read_outputs

OOM = (
    "2024-01-01 10:00:00.1: W tensorflow/core/framework/op_kernel.cc:1830] OP_REQUIRES failed at matmul_op.cc:1:"
    " RESOURCE_EXHAUSTED: OOM when allocating tensor with shape[1024,4096] and type float on /device:GPU:0 by GPU_0\n"
)
TRACEBACK = [
    "\x1b[31m---------------------------------------------------------------------------\x1b[39m",
    "\x1b[31mKeyError\x1b[39m                                  Traceback (most recent call last)",
    "\x1b[36mCell\x1b[39m \x1b[32mIn[3]\x1b[39m\x1b[32m, line 5\x1b[39m\n      4 y = 1\n----> 5 d['x']\n",
    "\x1b[31mKeyError\x1b[39m: 'x'",
]


def notebook(folder: Path, *cells: dict[str, Any]) -> Path:
    path = folder / "nb.ipynb"
    full = [{"cell_type": "code", "source": "x", "metadata": {}, "execution_count": 3, **cell} for cell in cells]
    path.write_text(json.dumps({"nbformat": 4, "cells": full}))
    return path


def stream(name: str, text: str | list[str]) -> dict[str, Any]:
    return {"outputs": [{"output_type": "stream", "name": name, "text": text}]}


def error() -> dict[str, Any]:
    return {"outputs": [{"output_type": "error", "ename": "KeyError", "evalue": "'x'", "traceback": TRACEBACK}]}


def faults(path: Path) -> list[tuple[str, str]]:
    return [(each.name, each.evidence[0].origin) for each in diagnose(read_outputs(path, words()))]


def test_fault_in_stderr_is_found_with_its_cell(tmp_path: Path) -> None:
    path = notebook(
        tmp_path, stream("stdout", "fine\n"), {**stream("stderr", OOM.splitlines(True)), "execution_count": 7}
    )
    assert faults(path) == [("device-oom", "output of cell [7]")]


def test_error_is_found_with_its_line(tmp_path: Path) -> None:
    path = notebook(tmp_path, error())
    (found,) = diagnose(read_outputs(path, words()))
    assert (found.name, found.captured["where"]) == ("unrelated", "In[3]:5")


def test_expected_error_is_not_a_fault(tmp_path: Path) -> None:
    path = notebook(tmp_path, {**error(), "metadata": {"tags": ["raises-exception"]}}, stream("stdout", "fine\n"))
    assert faults(path) == []


@pytest.mark.parametrize("cells", [[], [{}], [{"cell_type": "markdown"}], [{"outputs": [{"output_type": "error"}]}]])
def test_notebook_without_outputs_is_rejected_with_a_hint_to_run_it(tmp_path: Path, cells: list[Any]) -> None:
    with pytest.raises(Unreadable, match="has no outputs: run it first"):
        faults(notebook(tmp_path, *cells))


def test_damaged_notebook_is_rejected_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "nb.ipynb"
    path.write_text("{")
    with pytest.raises(Unreadable, match=r"nb.ipynb is damaged: it is not a JSON document"):
        faults(path)
