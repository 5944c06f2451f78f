"""Lists the runs in a folder of runs, for `oomph explain .oomph/runs`."""

from __future__ import annotations

import shlex
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oomph.terminal.message import shown_line

if TYPE_CHECKING:
    from oomph.run.directory.run_directory import RunRecord

SCHEMA = 1
_MOST_SHOWN = 20


def runs_in(folder: Path) -> list[Path]:
    """All run directories of a folder, the newest first: those named by --run-dir, and those below `.oomph`."""
    places = (folder, folder / "runs", folder / ".oomph" / "runs", *_inside(folder, ".oomph/runs"))
    runs = {run: at for place in places for run in _inside(place) if (at := _changed(run)) is not None}
    return sorted(sorted(runs), key=lambda run: runs[run], reverse=True)


def _inside(folder: Path, name: str = "") -> list[Path]:
    """The entries of a folder, or the path `name` in each of them; empty if it cannot be read."""
    try:
        return [path / name for path in folder.iterdir()]
    except OSError:
        return []


def _changed(run: Path) -> float | None:
    """The Unix time of a run's last change; None if the folder is not a run. A lost run.json is allowed."""
    for name in ("run.json", "journal"):
        try:
            found = (run / name).stat()
        except OSError:
            continue
        if stat.S_ISDIR(found.st_mode) == (name == "journal"):
            return found.st_mtime
    return None


def as_text(runs: Sequence[Path], width: int) -> str:
    """One line for each run, and the command that explains the newest."""
    from oomph.explain import render
    from oomph.run.directory.run_directory import RUNNING, read_record

    lines = []
    for path in runs[:_MOST_SHOWN]:
        record = read_record(path)
        if record is None:
            told = "run.json is damaged"
        else:
            state = _state(path, record)
            told = f"{RUNNING if state == 'going-on' else state:<10} {shlex.join(record.command)}"
        lines.append(shown_line(f"{path}  {told}"))
    if len(runs) > _MOST_SHOWN:
        lines.append(f"... and {len(runs) - _MOST_SHOWN} older ones")
    following = shown_line(f"Next: oomph explain {shlex.quote(str(runs[0]))}  (the newest)")
    return "\n".join([*lines, render.last_lines(following, width)])


def as_document(runs: Sequence[Path]) -> dict[str, Any]:
    """The runs as a JSON document."""
    from oomph.run.directory.run_directory import read_record

    records = [(path, read_record(path)) for path in runs]
    entries = [
        {
            "path": str(path),
            "status": record and record.status,
            "state": record and _state(path, record),
            "command": record and list(record.command),
        }
        for path, record in records
    ]
    return {"schema": SCHEMA, "runs": entries}


def _state(path: Path, record: RunRecord) -> str:
    """The state named by `oomph explain RUN --json`; for a run that is over, the one in run.json."""
    from oomph.run.directory.unfinished import unfinished

    left = unfinished(path)
    return record.status if left is None else left.name
