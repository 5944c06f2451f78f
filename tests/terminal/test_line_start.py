"""An oomph message starts on a new line, whatever the script left on the terminal, and erases nothing."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from captures import on_terminal
from emulator import screen

BAR = "3/90 [==>...........] loss: 0.5"
SAY = "from oomph.script.session import say; say('from the script: ' + 'a word ' * 12)"


def run(folder: Path, script: str, columns: int = 70, *options: str, **environ: str) -> list[str]:
    (folder / "train.py").write_text(script)
    command = [sys.executable, "-m", "oomph", "run", "--no-guard", f"--run-dir={folder}/run", *options, "train.py"]
    around = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    return screen(on_terminal(command, columns, folder, {**around, "TERM": "xterm", **environ}), columns)


ENDS = {"fails": "raise SystemExit(3)", "killed": "os.kill(os.getpid(), 9) if first else None"}


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
@pytest.mark.parametrize("end", ENDS)
def test_a_supervisor_message_after_a_progress_bar_starts_a_new_line(tmp_path: Path, stream: str, end: str) -> None:
    script = f"import os, sys\nsys.{stream}.write('\\r{BAR}')\nsys.{stream}.flush()\n"
    script += f"first = not os.path.exists('x')\nopen('x', 'w').close()\n{ENDS[end]}\n"
    lines = run(tmp_path, script)
    assert lines[lines.index(BAR) + 1].startswith("oomph: ")


def test_message_after_a_finished_line_does_not_add_a_blank_line(tmp_path: Path) -> None:
    lines = run(tmp_path, "print('done')\nraise SystemExit(3)\n")
    assert lines[lines.index("done") + 1].startswith("oomph: ")


def test_a_guard_message_after_a_progress_bar_starts_a_new_line_and_wraps(tmp_path: Path) -> None:
    bar = f"import sys, time\nsys.stdout.write('\\r{BAR}')\nsys.stdout.flush()\n"
    lines = run(tmp_path, f"{bar}{SAY}\ntime.sleep(1)  # the supervisor passes stderr on\nprint('next')\n")
    at = lines.index(BAR)
    assert lines[at + 1].startswith("oomph: from the script: a word")
    assert lines[at + 2].startswith("       ")
    assert lines[at + 3] == "next"
    assert not [line for line in lines if len(line) > 70]


def test_saved_stderr_is_plain_text(tmp_path: Path) -> None:
    run(tmp_path, f"{SAY}\n", 70, "--color=always")
    (line,) = (tmp_path / "run" / "stderr" / "1.log").read_text().strip().splitlines()
    assert line == "oomph: from the script: " + " ".join(["a word"] * 12)


def test_dumb_terminal_receives_no_control_characters(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "oomph", "run", "--no-guard", f"--run-dir={tmp_path}/run", "train.py"]
    (tmp_path / "train.py").write_text("import sys\nsys.stderr.write('half')\nraise SystemExit(3)\n")
    seen = on_terminal(command, 70, tmp_path, {**os.environ, "TERM": "dumb"})
    assert b"\x1b" not in seen
    assert b"half\r\noomph: " in seen
