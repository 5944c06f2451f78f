"""Texts that a script which runs commands does not get from a checkpoint."""

from __future__ import annotations

import numpy as np
import pytest

from oomph.objects import texts
from oomph.objects.admission import RefusedError, admitted
from oomph.objects.kind import NOTHING
from oomph.objects.texts import Among


@pytest.fixture
def _runs_commands(monkeypatch):
    monkeypatch.setattr(texts, "script_runs_commands", lambda: True)
    monkeypatch.setattr(texts, "_programs", lambda: frozenset(("touch", "sh", "env")))


COMMANDS = [
    "touch x",
    "touch",
    "  touch x",
    "A=1 B= touch x",
    "done; touch x",
    "done | sh",
    "done & sh",
    "$(sh)",
    "`sh`",
    "done > x",
    "don't",
    "one\ntouch x",
    "/bin/sh",
    "exec x",
    ". x",
    "--upload-pack=x",
    "-c",
    " A=1 touch x",
    "(touch x)",
    "! touch x",
    "/bin/[t]ouch x",
    "{touch,x}",
    "coproc touch x",
    "import x",
    "open (x)",
    "__import__(bytes([111,115]).decode()).system(x)",
]
PLAIN = [
    "done",
    "a touch",
    "loss 0.5, epoch 3",
    "50 %",
    "-1.5",
    "val_loss",
    "a/b",
    "(best)",
    "",
    "for",
    "import",
    "ä–é",
    "a=1",
]


@pytest.mark.parametrize("old", [NOTHING, "echo done", Among(("echo", "done"))], ids=["nothing", "text", "list"])
@pytest.mark.usefixtures("_runs_commands")
def test_text_a_shell_could_run_as_a_command_is_refused(old):
    for text in COMMANDS:
        for new in (text, text.encode(), (1, text), np.array([text])):
            with pytest.raises(RefusedError):
                admitted(new, old)
    for text in PLAIN:
        assert admitted(text, old) == text


@pytest.mark.usefixtures("_runs_commands")
def test_existing_command_text_is_kept():
    assert admitted("touch x; true", "touch x; true") == "touch x; true"
    assert admitted("touch", Among(("true", "touch"))) == "touch"


def test_command_texts_are_allowed_in_a_script_that_runs_no_commands():
    assert admitted("one; touch x\n", "two") == "one; touch x\n"


@pytest.mark.parametrize(
    ("source", "runs"),
    [
        ("import subprocess", True),
        ("from os import system", True),
        ("os.popen(x)", True),
        ("exec(x)", True),
        ("os.execvp(x)", True),
        ("importlib.import_module(x)", True),
        ("model.evaluate(x)", False),
        ("executed = 1", False),
    ],
)
def test_script_naming_a_way_to_run_commands_counts_as_running_them(tmp_path, source, runs):
    path = tmp_path / "train.py"
    path.write_text(source)
    assert texts._names_a_way(str(path)) is runs
    assert texts._names_a_way(str(tmp_path / "gone.py"))
