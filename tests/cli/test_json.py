"""Every JSON document that oomph prints or stores declares its schema."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import oomph
from oomph.cli import COMMANDS

LIMIT = 120
LOG = Path(__file__).parents[1] / "logs" / "full.log"
COMMAND_LINES = {
    "run": ["run", "--json", "train.py"],
    "doctor": ["doctor", "--json"],
    "explain": ["explain", "--json", str(LOG)],
    "explain a fault": ["explain", "--json", "OOM101"],
    "explain an exit status": ["explain", "--json", "--exit-status", "137"],
    "plan without a training": ["plan", "--json", "train.py"],
    "check without a training": ["check", "--json", "train.py"],
    "watch": ["watch", "--json"],
    "runs": ["runs", "--json"],
    "prune": ["runs", "prune", "--keep=9", "--json"],
    "kernel": ["kernel", "list", "--json"],
    "explain a run": ["explain", "--json", "there"],
    "report": ["report", "--format", "json", "there"],
    "explain the decisions of a run": ["explain", "--json", "there", "--decisions"],
}
WITH_TENSORFLOW = {"rehearse": "tests/rehearse/test_judge.py", "demo": "tests/test_project.py"}
"""Verbs that train for minutes; their documents are checked in the tests of their results."""
WITHOUT_DOCUMENT = {"completion", "submit"}
"""Print a script for a shell, or a file for a scheduler."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a script, and a run of it that was killed once."""
    folder = tmp_path_factory.mktemp("json")
    (folder / "train.py").write_text(
        "import os\nif not os.path.exists('again'): open('again', 'w').close(); os.kill(os.getpid(), 9)\n"
    )
    assert call(folder, "run", "--run-dir=there", "train.py").returncode == 0
    return folder


def call(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("OOMPH_", "PYTHON"))}
    return subprocess.run(
        [sys.executable, "-m", "oomph", *words],
        cwd=folder,
        env={**clean, "PYTHONPATH": str(Path(oomph.__file__).parents[1])},
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )


@pytest.mark.parametrize("words", COMMAND_LINES.values(), ids=COMMAND_LINES.keys())
def test_printed_json_is_a_single_document_with_a_schema(folder, words):
    document: dict[str, Any] = json.loads(call(folder, *words).stdout)
    assert document["schema"] == 1
    assert len(document) > 1


def test_every_verb_is_covered_by_a_schema_test():
    seen = {words[0] for words in COMMAND_LINES.values()} | set(WITH_TENSORFLOW)
    assert seen | WITHOUT_DOCUMENT == set(COMMANDS)
    root = Path(__file__).parents[2]
    for path in WITH_TENSORFLOW.values():
        assert '"schema"' in (root / path).read_text()


def test_every_json_file_of_a_run_has_a_schema(folder):
    there = folder / "there"
    documents = [json.loads(path.read_text()) for path in there.glob("*.json")]
    lines = [json.loads(line) for path in there.glob("journal/*.jsonl") for line in path.read_text().splitlines()]
    assert {path.name for path in there.glob("*.json")} == {"run.json", "summary.json"}
    assert len(lines) > 10
    assert {document.get("schema") for document in [*documents, *lines]} == {1}
    (machine,) = [line for line in lines if line["event"] == "machine"]
    assert machine["data"]["snapshot"]["schema"] == 1
