"""oomph runs without the variables meant for the script's Python, and the script receives all of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from oomph.process import own_process

SOURCE = Path(own_process.__file__).parents[1]
SCRIPT = """
import json, os, sys
with open(f"/proc/{os.getppid()}/cmdline") as command:
    parent = command.read().split(chr(0))
seen = {name: value for name, value in os.environ.items() if name.startswith(("PYTHON", "OOMPH_SEARCH"))}
print(json.dumps([parent, seen, sys.flags.inspect, sys.warnoptions]))
"""
DISTURBING = {
    "PYTHONINSPECT": "1",
    "PYTHONTRACEMALLOC": "25",
    "PYTHONWARNINGS": "error",
    "PYTHONVERBOSE": "1",
    "PYTHONDEVMODE": "1",
    "PYTHONPROFILEIMPORTTIME": "1",
    "PYTHONMALLOCSTATS": "1",
    "PYTHONOPTIMIZE": "2",
    "PYTHONEXECUTABLE": sys.executable,
}
HARMLESS = {"PYTHON_VERSION": "3.11.4", "PYTHONUNBUFFERED": "1", "PYTHONUTF8": "1", "PYTHONWARNINGS": ""}


def run_in(folder: Path, **variables: str) -> tuple[list[str], dict[str, str], subprocess.CompletedProcess[str]]:
    (folder / "train.py").write_text(SCRIPT)
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "OOMPH"))}
    command = [sys.executable, "-m", "oomph", "run", "--run-dir", "run", "train.py"]
    ended = subprocess.run(
        command,
        cwd=folder,
        env=environ | variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    line = next((line for line in ended.stdout.splitlines() if line.startswith("[[")), "[[], {}]")
    parent, seen = json.loads(line)[:2]
    return parent, seen, ended


@pytest.mark.parametrize("name", DISTURBING)
def test_interfering_variable_reaches_the_script_but_not_oomph(tmp_path, name):
    parent, seen, ended = run_in(tmp_path, **{name: DISTURBING[name]})
    assert ended.returncode == 0
    assert parent[1] == "-I"
    assert seen.items() >= {name: DISTURBING[name]}.items()
    assert own_process.SEARCH_PATH not in seen
    told = [line for line in ended.stderr.splitlines() if line.startswith("oomph: ")]
    assert told[0].startswith("oomph: running train.py")
    assert told[-1].startswith("oomph: finished without a fault")


def test_script_modules_do_not_shadow_oomph_modules(tmp_path):
    own = tmp_path / "own"
    own.mkdir()
    for name in ("argparse", "journal", "typing_extensions", "psutil", "shlex", "oomph_of_theirs"):
        (own / f"{name}.py").write_text(f"raise RuntimeError('{name} of the script')\n")
    (own / "sitecustomize.py").write_text("import sys; sys.argv_of_sitecustomize = True\n")
    parent, seen, ended = run_in(tmp_path, PYTHONPATH=str(own))
    assert ended.returncode == 0, ended.stderr
    assert "of the script" not in ended.stderr
    assert parent[1] == "-I"
    assert seen["PYTHONPATH"].endswith(f":{own}")


def test_oomph_does_not_restart_itself_without_an_interfering_variable(tmp_path):
    parent, seen, ended = run_in(tmp_path, **HARMLESS)
    assert ended.returncode == 0
    assert "-I" not in parent
    assert seen["PYTHON_VERSION"] == "3.11.4"


def test_oomph_runs_from_the_search_path(tmp_path):
    command = [sys.executable, "-S", "-m", "oomph", "--version"]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join((str(SOURCE), *filter(None, sys.path)))}
    ended = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=60)
    assert ended.stdout.startswith("oomph "), ended.stderr


def test_oomph_starts_without_the_python_in_sys_executable(tmp_path):
    code = "import sys; sys.executable, sys.argv[1:] = '/no', ['--version']; from oomph import entry; entry.command()"
    environ = {**os.environ, "PYTHONPATH": str(SOURCE)}
    ended = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, timeout=60)
    assert ended.stdout.startswith("oomph "), ended.stderr
