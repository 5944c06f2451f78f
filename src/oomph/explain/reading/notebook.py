"""Reads the outputs that a notebook's file contains as evidence: what its cells printed, and the errors they raised."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from oomph.explain.evidence.evidence import Evidence
from oomph.explain.reading.file import Unreadable
from oomph.explain.reading.log import Words, read_log
from oomph.files.notebook_document import NotANotebookError, code_cells, is_expected_to_raise, read_notebook, text_of


def read_outputs(path: Path, words: Words | None = None) -> Iterator[Evidence]:
    """Yield the facts in a notebook's outputs, cell by cell. Raises OSError or Unreadable if there are none."""
    try:
        document = read_notebook(path)
    except NotANotebookError as error:
        raise Unreadable(f"{path} {error}") from None
    printed = [(_name_of(cell), _text(cell)) for cell in code_cells(document)]
    if not any(text for _, text in printed):
        raise Unreadable(f"{path} has no outputs: run it first, with oomph run {path}")
    for name, text in printed:
        yield from read_log(io.BytesIO(text.encode(errors="replace")), name, words)


def _name_of(cell: dict[str, Any]) -> str:
    count = cell.get("execution_count")
    return f"output of cell [{count if isinstance(count, int) else ' '}]"


def _text(cell: dict[str, Any]) -> str:
    """Return the lines that a cell's outputs would have in a log, except for an error that it is expected to raise."""
    texts = (_output(output, cell).rstrip() for output in cell.get("outputs", []))
    return "".join(f"{text}\n" for text in texts if text)


def _output(output: dict[str, Any], cell: dict[str, Any]) -> str:
    if output.get("output_type") == "stream":
        return text_of(output.get("text"))
    if output.get("output_type") != "error" or is_expected_to_raise(cell):
        return ""
    traceback = output.get("traceback")
    return "\n".join(line for line in traceback if isinstance(line, str)) if isinstance(traceback, list) else ""
