"""Reads notebooks: JSON documents in Jupyter's format 4. Used in both processes; standard library only.

It does without nbformat, which the script's Python may not have. Fields that oomph does not know are kept, so they
survive when the notebook is saved again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from oomph.files.opening import read_regular

SUFFIX = ".ipynb"
CODE = "code"
_MAJOR = 4
_MOST_BYTES = 1 << 30


class NotANotebookError(ValueError):
    """Raised if a file is not a notebook that oomph can use. The message is meant to follow the file's name."""

    def __init__(self, reason: str, is_old: bool = False) -> None:
        super().__init__(reason)
        self.is_old = is_old
        """True for a notebook in an older format, which Jupyter can convert."""


def read_notebook(path: Path) -> dict[str, Any]:
    """Read a notebook and check its structure. Raises NotANotebookError, or OSError if the file cannot be read."""
    return parse_notebook(read_regular(path, _MOST_BYTES))


def parse_notebook(content: bytes) -> dict[str, Any]:
    """Parse a notebook and check its structure. Raises NotANotebookError."""
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise NotANotebookError(f"is damaged: it is not a JSON document ({error})") from None
    if not isinstance(document, dict) or not isinstance(document.get("nbformat"), int):
        raise NotANotebookError("is not a notebook: the document has no number nbformat")
    if document["nbformat"] != _MAJOR:
        major = document["nbformat"]
        raise NotANotebookError(f"is a notebook in format {major}; oomph reads format {_MAJOR}", is_old=major < _MAJOR)
    cells = document.get("cells")
    if not isinstance(cells, list):
        raise NotANotebookError("is damaged: it has no list of cells")
    wrong = next((number for number, cell in enumerate(cells, 1) if not _is_cell(cell)), None)
    if wrong is not None:
        raise NotANotebookError(f"is damaged: its cell {wrong}, counted from 1, does not follow format {_MAJOR}")
    return document


def _is_cell(cell: object) -> bool:
    if not isinstance(cell, dict) or not _is_text(cell.get("source")):
        return False
    outputs = cell.get("outputs", [])
    return (
        isinstance(cell.get("cell_type"), str)
        and isinstance(cell.get("metadata", {}), dict)
        and isinstance(outputs, list)
        and all(isinstance(output, dict) for output in outputs)
    )


def _is_text(value: object) -> bool:
    return isinstance(value, str) or (isinstance(value, list) and all(isinstance(line, str) for line in value))


def code_cells(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the code cells of a notebook, in order."""
    yield from (cell for cell in document["cells"] if cell["cell_type"] == CODE)


def text_of(value: object) -> str:
    """Return a text that the format stores as a string or as a list of lines, or "" for any other value."""
    if isinstance(value, list):
        return "".join(line for line in value if isinstance(line, str))
    return value if isinstance(value, str) else ""


def language_of(document: dict[str, Any]) -> str:
    """Return the language of a notebook's code cells, in lower case, or "" if the notebook does not say."""
    metadata = document.get("metadata")
    parts = [metadata.get(name) for name in ("kernelspec", "language_info")] if isinstance(metadata, dict) else []
    for part, field in zip(parts, ("language", "name"), strict=False):
        found = part.get(field) if isinstance(part, dict) else None
        if isinstance(found, str) and found:
            return found.lower()
    return ""


def is_expected_to_raise(cell: dict[str, Any]) -> bool:
    """True if the cell has the tag `raises-exception`: an error in it does not end the notebook."""
    return _has_tag(cell, "raises-exception")


def is_skipped(cell: dict[str, Any]) -> bool:
    """True if a code cell is empty or has the tag `skip-execution`. It does not run, and keeps its outputs."""
    return _has_tag(cell, "skip-execution") or not text_of(cell["source"]).strip()


def _has_tag(cell: dict[str, Any], tag: str) -> bool:
    """True if the cell has the tag."""
    tags = cell.get("metadata", {}).get("tags", [])
    return isinstance(tags, list) and tag in tags
