"""The import hook, with empty stand-in packages named like Keras."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest

from oomph.inject.hook import after_import
from oomph.journal.journal import read_journal

_SCRIPT = """
import sys
import keras.src.backend.tensorflow.trainer as trainer
print(trainer.VALUE, type(trainer.__loader__).__name__)
print([f for f in sys.meta_path if type(f).__name__ == "AwaitingFinder" and trainer.__name__ in f._actions])
print("exec_module" in vars(trainer.__spec__.loader))
"""


@pytest.fixture
def fake_keras(tmp_path: Path) -> Path:
    folder = tmp_path / "keras" / "src" / "backend" / "tensorflow"
    folder.mkdir(parents=True)
    for parent in [folder, *list(folder.parents)[:3]]:
        (parent / "__init__.py").write_text("")
    (folder / "trainer.py").write_text("VALUE = 42\n")
    return tmp_path


def _stand_in(fake_keras: Path, body: str) -> str:
    """Return a script that installs a stand-in for oomph.hooks.intercept before it imports Keras."""
    return (
        "import sys, types\n"
        "name = 'oomph.hooks.intercept'\n"
        "module = types.ModuleType(name)\n"
        "def install(trainer, session):\n"
        f"    {body}\n"
        "module.install = install\n"
        "sys.modules[name] = module\n" + _SCRIPT
    )


def test_guard_is_installed_when_the_trainer_is_imported(start, fake_keras):
    result = start(_stand_in(fake_keras, "print('installed', trainer.VALUE, session.role, session.owner)"))
    assert result.stdout.splitlines() == ["installed 42 script True", "42 SourceFileLoader", "[]", "False"]
    assert result.stderr == ""


def test_failing_guard_prints_one_line_and_records_an_event(start, fake_keras, run_dir):
    result = start(_stand_in(fake_keras, "raise ValueError('no such feature')"))
    assert result.stdout.splitlines()[0] == "42 SourceFileLoader"
    assert result.stderr == "oomph: ValueError: no such feature; the script runs unguarded\n"
    (failed,) = [event for event in read_journal(run_dir) if event.name == "guard-failed"]
    assert "no such feature" in failed.data["reason"]


def test_guard_is_not_installed_with_the_no_guard_option(start, fake_keras):
    result = start(_stand_in(fake_keras, "print('installed')"), guard=False)
    assert "installed" not in result.stdout


def test_trainer_import_error_matches_plain_python(start, fake_keras):
    trainer = fake_keras / "keras" / "src" / "backend" / "tensorflow" / "trainer.py"
    trainer.write_text("raise OSError('theirs')\n")
    result = start("import keras.src.backend.tensorflow.trainer")
    assert "OSError: theirs" in result.stderr
    assert "hook.py" not in result.stderr.splitlines()[-2]
    assert result.returncode == 1


def test_script_without_keras_does_not_load_the_keras_bridge(start):
    result = start("import sys, json; print([m for m in sys.modules if m.startswith('oomph.keras_bridge')])")
    assert json.loads(result.stdout.replace("'", '"')) == []


def test_import_finder_stays_installed_and_acts_once_per_module(tmp_path, monkeypatch):
    (tmp_path / "awaited_once.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    acted: list[str] = []
    after_import({"awaited_once": lambda module: acted.append(module.__name__)})
    finder = sys.meta_path[0]
    for _ in range(2):
        importlib.import_module("awaited_once")
        del sys.modules["awaited_once"]
    assert acted == ["awaited_once"]
    assert sys.meta_path[0] is finder


def test_worker_process_is_guarded_once_it_imports_keras(start, fake_keras, run_dir):
    (fake_keras / "child.py").write_text(
        _stand_in(fake_keras, "print('installed', session.role.startswith('worker'), session.board)")
    )
    result = start(
        "import subprocess, sys; subprocess.run([sys.executable, 'child.py'])\n"
        "subprocess.run([sys.executable, '-c', 'pass'])"
    )
    assert result.stdout.splitlines()[0] == "installed True None"
    started = [event for event in read_journal(run_dir) if event.name == "process-started"]
    roles = sorted(event.role.rstrip("0123456789") for event in started)
    assert roles == ["script", "worker"]
