"""A process that does not write its stacks itself hangs: py-spy tells where, when it is installed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from oomph.journal.journal import read_journal
from oomph.run.hang.limits import FLOOR_VARIABLE

SCRIPT = """
import faulthandler, os, signal, time
from oomph.script import session
from oomph.protocol.progress import Phase

def waits_for_nothing():
    time.sleep(50)

faulthandler.unregister(signal.SIGRTMIN + 20)
signal.signal(signal.SIGRTMIN + 20, signal.SIG_DFL)
session.current().pulse.beat(Phase.STEP, 0)
if not os.path.exists("again"):
    open("again", "w").close()
    waits_for_nothing()
print("end")
"""
# What py-spy 0.4.3 prints of it.
STAND_IN = """#!/bin/sh
test "$1 $2 $3" = "dump --full-filenames --pid" || exit 2
echo "Process $4: python train.py
Python v3.11.7 (/usr/bin/python3.11)

Thread $4 (idle): \\"MainThread\\"
    waits_for_nothing ($PWD/train.py:7)
    <module> ($PWD/train.py:14)"
"""


@pytest.mark.parametrize(
    "program",
    [
        "stand-in",
        pytest.param(
            "py-spy", marks=pytest.mark.skipif(shutil.which("py-spy") is None, reason="py-spy is not installed")
        ),
    ],
)
def test_line_of_a_hang_is_named_from_the_output_of_py_spy(work, program):
    work.script(SCRIPT)
    path = Path(work.folder / "bin" / "py-spy")
    path.parent.mkdir()
    if program == "stand-in":
        path.write_text(STAND_IN)
        path.chmod(0o755)
    environ = work.environ(PATH=f"{path.parent}{os.pathsep}{os.environ['PATH']}", **{FLOOR_VARIABLE: "3"})
    ended = work.run("--no-guard", "train.py", env=environ)
    assert (ended.returncode, ended.stdout) == (0, b"end\n"), ended.stderr.decode()
    (hang,) = (event.data for event in read_journal(work.run_dir) if event.name == "hang")
    assert hang["line"] == "train.py:7 in waits_for_nothing"
    assert hang["stacks"].startswith("Process ")
