"""Writes notebooks, and runs them with `oomph run` as a user does. Nothing that it starts outlives a test."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat

from oomph.journal.journal import Event, read_journal
from oomph.protocol.progress import read_progress

SECONDS = 150
ABSENT = Path(__file__).parents[1] / "end_to_end/absent"
"""Stubs that hide the packages that Keras imports if they are installed, which only takes time."""

Cell = str | tuple[str, str]
"""The source of a code cell, or its tag and its source."""


def write(folder: Path, *cells: Cell, name: str = "nb.ipynb", **metadata: Any) -> Path:
    """Write a notebook with these code cells."""
    tagged = [("", cell) if isinstance(cell, str) else cell for cell in cells]
    document = nbformat.v4.new_notebook(metadata=metadata)
    for tag, source in tagged:
        document.cells.append(nbformat.v4.new_code_cell(source, metadata={"tags": [tag]} if tag else {}))
    path = folder / name
    nbformat.write(document, path)
    return path


def outputs(path: Path) -> list[list[dict[str, Any]]]:
    """Return the outputs of each code cell in a file, which must be a valid notebook."""
    nbformat.validate(nbformat.read(path, as_version=4))
    return [cell["outputs"] for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]


def printed(cell: list[dict[str, Any]], stream: str = "stdout") -> str:
    """Return what a cell printed."""
    return "".join(output["text"] for output in cell if output.get("name") == stream)


@dataclass(frozen=True)
class NotebookRun:
    """A finished run of a notebook."""

    returncode: int
    stdout: str
    stderr: str
    folder: Path

    @property
    def outputs(self) -> list[list[dict[str, Any]]]:
        return outputs(self.folder / "nb.oomph.ipynb")

    @property
    def summary(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads((self.folder / "run/summary.json").read_text())
        return document

    def events(self, name: str) -> list[Event]:
        return [event for event in read_journal(self.folder / "run") if event.name == name]


def environ(**variables: str) -> dict[str, str]:
    """Return the environment for a notebook, in which TensorFlow computes on the CPU in a fixed order."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("OOMPH_", "PYTHON", "TF_", "XLA_"))}
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0", "CUDA_VISIBLE_DEVICES": "-1"}
    return {**kept, **quiet, "PYTHONPATH": str(ABSENT), **variables}


@contextlib.contextmanager
def started(folder: Path, *words: str, verb: str = "run", **variables: str) -> Iterator[subprocess.Popen[str]]:
    """Start `oomph run --run-dir=run WORD…` in a folder, and kill whatever is left of it afterwards."""
    options = ["--run-dir=run"] if verb == "run" else []
    command = [sys.executable, "-m", "oomph", verb, *options, *words]
    pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(
        command, cwd=folder, env=environ(**variables), text=True, start_new_session=True, **pipes
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # its watchdog ends the notebook's own group
        process.communicate(timeout=30)


def finish(process: subprocess.Popen[str], folder: Path) -> NotebookRun:
    """Wait until the run has ended."""
    out, err = process.communicate(timeout=SECONDS)
    return NotebookRun(process.returncode, out, err, folder)


def run(folder: Path, *words: str, **variables: str) -> NotebookRun:
    """Run `oomph run --run-dir=run WORD…` to its end."""
    with started(folder, *words, **variables) as process:
        return finish(process, folder)


def wait_for(look: Callable[[], Any], process: subprocess.Popen[str], seconds: float = SECONDS) -> Any:
    """Poll until there is a result."""
    until = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < until, "waited in vain"
        assert process.poll() is None, f"the run ended too early: {process.communicate(timeout=30)}"
        time.sleep(0.005)
    return found


def kill_at_step(process: subprocess.Popen[str], folder: Path, steps: int) -> None:
    """Kill the notebook's process with SIGKILL as soon as this many steps are committed."""

    def has_come() -> bool:
        at = read_progress(folder / "run")
        return at is not None and at.steps >= steps

    wait_for(has_come, process)
    os.kill(int((folder / "run/owner-1").read_text()), signal.SIGKILL)
