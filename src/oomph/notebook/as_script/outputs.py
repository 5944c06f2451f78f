"""Collects the outputs of a notebook's cells, as a front end such as JupyterLab does. Pure; standard library only."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from typing import Any

_CONTROLS = re.compile(r"([\n\r\b])")
_WIDGET = "application/vnd.jupyter.widget-view+json"

Output = dict[str, Any]
"""One output of a cell, as in the notebook's file."""


class StreamText:
    """The text of a stream as a terminal shows it: after a carriage return or backspace, new text replaces the old.

    A progress bar that is redrawn for hours leaves a single line.
    """

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._line: list[str] = []
        """The characters of the last line."""
        self._column = 0

    def write(self, text: str) -> None:
        """Add text at the current position."""
        for piece in _CONTROLS.split(text):
            if piece == "\n":
                self._lines.append("".join([*self._line, piece]))
                self._line, self._column = [], 0
            elif piece == "\r":
                self._column = 0
            elif piece == "\b":
                self._column = max(0, self._column - 1)
            else:
                start, self._column = self._column, self._column + len(piece)
                self._line[start : self._column] = piece

    def __str__(self) -> str:
        return "".join([*self._lines, *self._line])


class CellOutputs:
    """The outputs of one cell while it runs.

    Args:
        displays: the displays of the whole notebook by id; any cell can update them.
    """

    def __init__(self, displays: dict[str, list[Output]]) -> None:
        self._displays = displays
        self._outputs: list[Output] = []
        self._clear_first = False
        self.has_error = False
        """True if an error is among the outputs."""

    def write(self, stream: str, text: str) -> None:
        """Add text to "stdout" or "stderr"."""
        last = self._outputs[-1] if self._outputs and not self._clear_first else {}
        if last.get("name") != stream:
            last = {"output_type": "stream", "name": stream, "text": StreamText()}
            self._add(last)
        last["text"].write(text)

    def display(self, data: Mapping[str, Any], metadata: Mapping[str, Any], display_id: str | None = None) -> None:
        """Add a display, which can be updated later if it has an id."""
        output = {"output_type": "display_data", "data": _without_widgets(data), "metadata": dict(metadata)}
        if display_id is not None:
            self._displays.setdefault(display_id, []).append(output)
        self._add(output)

    def update(self, data: Mapping[str, Any], metadata: Mapping[str, Any], display_id: str | None) -> None:
        """Replace the content of all displays with this id, in any cell."""
        for output in self._displays.get(display_id or "", ()):
            output.update(data=_without_widgets(data), metadata=dict(metadata))

    def result(self, count: int, data: Mapping[str, Any], metadata: Mapping[str, Any]) -> None:
        """Add the value of the cell's last expression."""
        content = {"data": _without_widgets(data), "metadata": dict(metadata)}
        self._add({"output_type": "execute_result", "execution_count": count, **content})

    def error(self, name: str, value: str, traceback: list[str]) -> None:
        """Add an exception."""
        self._add({"output_type": "error", "ename": name, "evalue": value, "traceback": traceback})
        self.has_error = True

    def clear(self, wait: bool = False) -> None:
        """Remove all outputs: now or, if `wait` is True, when the next output arrives."""
        self._clear_first = wait
        if not wait:
            self._outputs.clear()

    def _add(self, output: Output) -> None:
        if self._clear_first:
            self.clear()
        self._outputs.append(output)

    def as_list(self) -> list[Output]:
        """Return the outputs so far, for the notebook's file."""
        return list(self._outputs)


def _without_widgets(data: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out references to widgets, which need a kernel; their text remains."""
    return {kind: value for kind, value in data.items() if kind != _WIDGET}


def as_file(document: Mapping[str, Any]) -> bytes:
    """Return a notebook as the contents of its file."""
    text = json.dumps(document, indent=1, ensure_ascii=False, skipkeys=True, default=_storable)
    return f"{text}\n".encode(errors="backslashreplace")  # turns a lone surrogate into a JSON escape


def _storable(value: object) -> str:
    """Return a value that JSON cannot represent as text: bytes, such as images, in base64."""
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)
