"""Runs scripts up to their training in separate processes, and checks what is left of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

import oomph

LIMIT = 120
ABSENT = Path(__file__).parents[1] / "end_to_end" / "absent"
EXAMINERS = Path(__file__).parent / "examiners"
_DRIVER = """
import json, sys
from oomph.reach.reach import reach
from oomph.reach.request import ReachRequest, TrainingReached
from oomph.process.command import parse_command
options, words = json.loads(sys.argv[1]), sys.argv[2:]
command = parse_command(words)
found = reach(ReachRequest(command, command.own_python or sys.executable, **options))
kind = "" if isinstance(found, TrainingReached) else found.kind
before = [training._asdict() for training in found.before]
answer = {"document": found.document} if not kind else {"reason": found.reason}
print(json.dumps({"kind": kind, "before": before, **answer}))
"""


@dataclass(frozen=True)
class Outcome:
    """The outcome of one script."""

    kind: str
    """Empty if its training was examined."""
    reason: str
    document: dict[str, Any]
    before: list[dict[str, str]]
    stderr: str
    files: set[str]
    """The script's output."""


@dataclass(frozen=True)
class Begun:
    """A script that is being run up to its training."""

    process: subprocess.Popen[str]
    folder: Path

    def left(self) -> list[psutil.Process]:
        """Return the script's live processes."""
        return [process for process in psutil.process_iter() if self._is_ours(process)]

    def _is_ours(self, process: psutil.Process) -> bool:
        try:
            ours = process.environ().get("OOMPH_TEST_MARK") == self.folder.name
            return ours and process.pid != self.process.pid and process.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            return False


class Scripts:
    """Scripts in separate folders. Those still running at the end are killed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._begun: list[Begun] = []

    def environ(self, mark: str) -> dict[str, str]:
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "TF_", "KERAS_"))}
        path = os.pathsep.join(map(str, (ABSENT, EXAMINERS, Path(oomph.__file__).parents[1])))
        return clean | {"PYTHONPATH": path, "CUDA_VISIBLE_DEVICES": "-1", "OOMPH_TEST_MARK": mark}

    def start(self, text: str, *words: str, stdin: str = "", **options: Any) -> Begun:
        """Start running the script; without `words`, it is `train.py`, which contains the text."""
        folder = self._folder / uuid.uuid4().hex
        folder.mkdir()
        (folder / "train.py").write_text(textwrap.dedent(text))
        (folder / "input").write_text(stdin)
        options = {"examiner": "examiners:describe", **options}
        command = [sys.executable, "-c", _DRIVER, json.dumps(options), *(words or ("train.py",))]
        with (folder / "input").open() as source:
            process = subprocess.Popen(
                command,
                cwd=folder,
                env=self.environ(folder.name),
                stdin=source,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        self._begun.append(Begun(process, folder))
        return self._begun[-1]

    def finish(self, begun: Begun) -> Outcome:
        """Wait for the outcome; nothing of the script may remain."""
        out, err = begun.process.communicate(timeout=LIMIT)
        assert begun.process.returncode == 0, err[-3000:]
        assert begun.left() == []
        found = json.loads(out)
        files = {path.name for path in begun.folder.iterdir()} - {"train.py", "input", "__pycache__"}
        return Outcome(
            found["kind"], found.get("reason", ""), found.get("document", {}), found["before"], err, files
        )  # fmt: skip

    def reach(self, text: str, *words: str, **options: Any) -> Outcome:
        return self.finish(self.start(text, *words, **options))

    def end(self) -> None:
        for begun in self._begun:
            begun.process.kill()
            begun.process.communicate(timeout=LIMIT)


@pytest.fixture
def scripts(tmp_path: Path) -> Iterator[Scripts]:
    scripts = Scripts(tmp_path)
    yield scripts
    scripts.end()
