"""The installation for `make demo`: what it says while pip works, and when pip fails. pip is a script here."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parents[1]
FROM_PIP = """\
Obtaining file:///somewhere/oomph
  Installing build dependencies: started
  WARNING: Retrying (Retry(total=4, connect=None)) after connection broken by 'ReadTimeoutError()': /simple/hatchling/
Collecting tensorflow>=2.16 (from oomph==0.1.0)
  Downloading tensorflow-2.21.0-cp311-cp311-manylinux_2_27_x86_64.whl.metadata (4.5 kB)
Downloading tensorflow-2.21.0-cp311-cp311-manylinux_2_27_x86_64.whl (263.2 MB)
Installing collected packages: keras, tensorflow, oomph
"""


@pytest.fixture
def installer(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("install_demo", ROOT / "install_demo.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "LINE_SECONDS", 0.0)
    return module


@pytest.fixture
def venv(tmp_path: Path) -> Callable[[str], str]:
    """Make a virtual environment whose pip is these shell commands."""

    def made(commands: str) -> str:
        python = tmp_path / "venv/bin/python"
        python.parent.mkdir(parents=True)
        python.write_text(f"#!/bin/sh\n{commands}")
        python.chmod(0o755)
        return str(tmp_path / "venv")

    return made


def test_each_stage_and_each_silent_second_is_shown(
    installer: ModuleType, venv: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = venv(f"cat <<'END'\n{FROM_PIP}END\nsleep 1.5\n")
    assert installer.main(folder, ".[demo]") == 0
    first, *stages, last = capsys.readouterr().out.strip().splitlines()
    assert first.startswith(f"Installing oomph, TensorFlow and Keras in {folder}: 600 MB to download, 2 GB on the disk")
    shown = [(stage, len(list(same))) for stage, same in groupby(stage.partition(" s  ")[2] for stage in stages)]
    assert [stage for stage, _ in shown] == [
        "starting",
        "preparing to build oomph",
        "trying again: the package index does not answer",
        "looking for tensorflow",
        "downloading tensorflow, 263.2 MB",
        "unpacking, for about a minute",
    ]
    assert shown[-1][1] >= 3  # again and again, while pip says nothing
    assert last.startswith("Installed in ")


def test_a_pipe_gets_a_line_every_five_seconds(
    installer: ModuleType,
    venv: Callable[[str], str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(installer, "LINE_SECONDS", 5.0)
    assert installer.main(venv(f"cat <<'END'\n{FROM_PIP}END\n"), ".[demo]") == 0
    assert len(capsys.readouterr().out.strip().splitlines()) == 3


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("WARNING: Retrying after connection broken by 'ProxyError('Cannot connect to proxy.')'", "the proxy refuses"),
        ("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device", "the disk is full"),
        ("ERROR: No matching distribution found for tensorflow>=2.16", "No matching distribution found for tensorflow"),
        ("", "it says nothing about why"),
    ],
)
def test_failure_of_pip_is_one_sentence(
    installer: ModuleType, venv: Callable[[str], str], capsys: pytest.CaptureFixture[str], said: str, why: str
) -> None:
    folder = venv(f"cat <<'END'\n{said}\nEND\nexit 1\n")
    assert installer.main(folder, ".[demo]") == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"make demo: pip could not install what the demo needs: {why}")
    assert line.endswith(f"(all that was said: {folder}/install.log)")
    assert said in Path(folder, "install.log").read_text()


def test_python_without_ensurepip_is_named_and_leaves_no_half_environment(
    installer: ModuleType,
    venv: Callable[[str], str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = Path(venv(""))
    said = "The virtual environment was not created successfully because ensurepip is not\navailable."
    stub = tmp_path / "python3"
    stub.write_text(f"#!/bin/sh\ntouch {folder}/bin/python\necho '{said}'\nexit 1\n")
    stub.chmod(0o755)
    (folder / "bin/python").unlink()
    monkeypatch.setattr(installer.sys, "executable", str(stub))
    assert installer.main(str(folder), ".[demo]") == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(
        f"make demo: {folder} cannot be made: this Python lacks ensurepip; on Debian and Ubuntu, apt"
    )
    assert not (folder / "bin/python").exists()


def test_second_demo_in_the_same_folder_does_not_install_into_the_first_one(
    installer: ModuleType, venv: Callable[[str], str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = venv(f"touch {tmp_path}/began; sleep 20")
    words = [sys.executable, str(ROOT / "install_demo.py"), folder, ".[demo]"]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, start_new_session=True) as first:
        while not (tmp_path / "began").exists():
            time.sleep(0.05)
        assert installer.main(folder, ".[demo]") == 1
        os.killpg(first.pid, signal.SIGINT)
    assert first.returncode == 130
    said = f"make demo: another one is installing in {folder}: wait until it has finished\n"
    assert capsys.readouterr().err == said


def test_full_disk_is_noticed_before_anything_is_downloaded(
    installer: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=1 << 30))
    assert installer.main(str(tmp_path / "venv"), ".[demo]") == 1
    assert capsys.readouterr().err == f"make demo: TensorFlow needs 3 GiB of free disk, and {tmp_path} has less\n"
    assert not (tmp_path / "venv").exists()


def test_demo_needs_no_tools_for_tests(tmp_path: Path) -> None:
    words = ["make", "--no-print-directory", "--dry-run", "demo", f"VENV={tmp_path / 'venv'}"]
    listed = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60).stdout
    assert f"install_demo.py {tmp_path}/venv '.[demo]'" in listed
    assert "[dev]" not in listed
