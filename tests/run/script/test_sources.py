"""The files that make up a script."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import oomph
from oomph.script.sources import code_in

_SCRIPT = """
import json, sys
sys.path.insert(0, {source!r})
sys.path.append({installed!r})
import argparse, helper, package.deep, other
from oomph.script.sources import script_files
print(json.dumps(script_files()))
"""


def files_of(folder: Path) -> dict[str, str]:
    source, installed = str(Path(oomph.__file__).parents[1]), str(folder / "site-packages")
    (folder / "train.py").write_text(_SCRIPT.format(source=source, installed=installed))
    done = subprocess.run([sys.executable, "train.py"], cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return found


def test_only_script_files_are_listed_and_edits_change_their_digests(tmp_path):
    (tmp_path / "package").mkdir()
    (tmp_path / "site-packages").mkdir()
    names = {"helper.py", "package/__init__.py", "package/deep.py", "site-packages/other.py"}
    for name in names:
        (tmp_path / name).write_text("A = 1\n")
    before = files_of(tmp_path)
    assert set(before) == {"train.py", "helper.py", "package/__init__.py", "package/deep.py"}
    (tmp_path / "package/deep.py").write_text("A = 2\n")
    after = files_of(tmp_path)
    assert {name for name in before if before[name] != after[name]} == {"package/deep.py"}


def test_comments_and_layout_do_not_change_the_digest(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules["__main__"], "__file__", str(tmp_path / "train.py"), raising=False)
    (tmp_path / "no.py").write_text("def (")
    found = []
    for text in ("A = (1,\n  2)\n", "A = (1, 2)  # why\n\n", "A = (1, 3)\n"):
        (tmp_path / "train.py").write_text(text)
        found.append(code_in({"train.py": text, "no.py": "", "gone.py": ""}))
    first, commented, edited = found
    assert first == commented
    assert set(first) == {"train.py"}
    assert edited != first
