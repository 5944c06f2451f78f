"""Formats a list of runs, for `oomph runs` and `oomph explain FOLDER`."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from oomph.explain import render
from oomph.run.directory.listed_run import GOING_ON, ListedRun, described, disk_bytes
from oomph.run.directory.run_directory import RUNNING
from oomph.terminal.amounts import as_size, counted
from oomph.terminal.message import shown_line
from oomph.terminal.wrapping import shortened, wrapped

SCHEMA = 1
_MOST_OF_COMMAND, _MOST_OF_STATE = 200, 12
_UNKNOWN = "-"
_MONITORED = "oomph.Monitor"


def list_as_text(runs: Sequence[Path], width: int, most: int | None = None, section: str = "") -> str:
    """Format a line for each run and, if that is too wide for the screen, a second one below the path.

    Args:
        runs: the run directories, newest first.
        width: the number of columns of the screen.
        most: the number of runs to show, or None for all.
        section: an additional section to show before the next command.
    """
    rows = [_row(described(path), disk_bytes(path)) for path in runs[:most]]
    lines = list(_in_columns(rows))
    if any(len(line) > width for line in lines):
        lines = [
            each
            for row, line in zip(rows, _in_columns(rows, with_path=False), strict=True)
            for each in (row.path, wrapped(f"  {line}", width, "    "))
        ]
    if len(runs) > len(rows):
        lines.append(f"... and {len(runs) - len(rows)} older ones (oomph runs lists them all)")
    if section:
        lines += ["", section, ""]
    verb = "report" if described(runs[0]).is_monitored else "explain"
    following = shown_line(f"Next: oomph {verb} {shlex.quote(str(runs[0]))}  (the newest)")
    return "\n".join([*lines, render.last_lines(following, width)])


class _Row(NamedTuple):
    path: str
    state: str
    when: str
    steps: str
    label: str
    size: str
    command: str


def _row(run: ListedRun, size: int) -> _Row:
    state = RUNNING if run.state == GOING_ON else run.state
    return _Row(
        path=shown_line(str(run.path)),
        state=_UNKNOWN if state is None else shortened(shown_line(state), _MOST_OF_STATE),
        when=moment(run.changed),
        steps=_UNKNOWN if run.steps is None else counted(run.steps, "step", ","),
        label=run.label or _UNKNOWN,
        size=as_size(size),
        command=_MONITORED if run.is_monitored else run.problem if run.record is None else command_of(run),
    )


def _in_columns(rows: Sequence[_Row], with_path: bool = True) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            f"{cell:>{room}}" if name in ("steps", "size") else f"{cell:<{room}}"
            for name, cell, room in zip(_Row._fields, row, widths, strict=True)
        ]
        yield "  ".join(cells[not with_path :]).rstrip()


def moment(at: float) -> str:
    """Format a Unix time as local time, to the minute."""
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))
    except (OverflowError, ValueError, OSError):
        return _UNKNOWN  # a planted time


def command_of(run: ListedRun) -> str:
    """Return the command of a run on one line, shortened if it is long."""
    return "" if run.record is None else shortened(shown_line(shlex.join(run.record.command)), _MOST_OF_COMMAND)


def list_as_document(runs: Sequence[Path]) -> dict[str, Any]:
    """Return a JSON document that lists the runs."""
    return {"schema": SCHEMA, "runs": [_entry(described(path), disk_bytes(path)) for path in runs]}


def _entry(run: ListedRun, size: int) -> dict[str, Any]:
    record = run.record
    return {
        "path": str(run.path),
        "status": record and record.status,
        "state": run.state,
        "monitor": run.is_monitored,
        "problem": run.problem or None,
        "command": record and list(record.command),
        "created": record and record.created,
        "changed": run.changed,
        "steps": run.steps,
        "exactness": run.label,
        "bytes": size,
    }
