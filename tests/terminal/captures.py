"""Captures what oomph prints, on a pseudo-terminal and on a pipe; `make golden` rewrites golden/ with it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

HERE = Path(__file__).parent
GOLDEN = HERE / "golden"
LOGS = HERE.parent / "logs"
LIMIT = 120
_LOGS = (
    "oomgraph", "full", "nolibs", "cudnn_init", "cuinit_803", "launch_209", "sync_700", "two_mixed", "xla_oom",
    "no_libcublas.so.12",
)  # fmt: skip
_RUN = "../terminal/run"  # out of memory, then killed; its journal is shortened
VERBS = ("run", "doctor", "plan", "check", "watch", "report", "runs", "explain", "rehearse", "completion", "demo")
COMMANDS = {
    "help": ["--help"],
    **{f"{verb}-help": [verb, "--help"] for verb in VERBS},
    **{f"page-{code}": ["explain", code] for code in ("OOM101", "OOM110")},
    "page-check": ["explain", "DOC204"],
    "page-exception": ["explain", "MemoryError"],
    **{f"log-{name}": ["explain", f"{name}.log"] for name in _LOGS},
    "run": ["explain", _RUN],
    "run-full": ["explain", _RUN, "--full"],
    "run-decisions": ["explain", _RUN, "--decisions"],
    "runs": ["explain", "../terminal"],
    "unknown-verb": ["rum"],
}
PLACES = {
    "40": {"columns": 40},
    "60": {"columns": 60},
    "80": {"columns": 80},
    "120": {"columns": 120},
    "pipe": {},
    "no-color": {"columns": 80, "NO_COLOR": "1"},
    "dumb": {"columns": 80, "TERM": "dumb"},
}


def capture(words: list[str], columns: int = 0, **environ: str) -> str:
    """Capture what `oomph WORDS` prints to a terminal with this many columns; 0 means a pipe."""
    around = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS")}
    around |= {"TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8", **environ}
    command = [sys.executable, "-m", "oomph", *words]
    if not columns:
        ended = subprocess.run(
            command, cwd=LOGS, env=around, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LIMIT
        )
        return ended.stdout.decode()
    return on_terminal(command, columns, LOGS, around).decode().replace("\r\n", "\n")


def on_terminal(command: list[str], columns: int, folder: Path, environ: dict[str, str]) -> bytes:
    """Capture everything that a command writes to its own terminal."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen(command, cwd=folder, env=environ, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    seen = b""
    try:
        while data := _read(ours):
            seen += data
        process.wait(LIMIT)
    finally:
        process.kill()
        process.wait(LIMIT)
        os.close(ours)
    return seen


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, 65536)
    except OSError:
        return b""  # every process has closed the other side


def all_of(command: str) -> str:
    """Return the golden file of a command, with every capture of it."""
    parts = {place: capture(COMMANDS[command], **where) for place, where in PLACES.items()}  # type: ignore[arg-type]
    return "".join(f"==== {place}\n{shown(text)}" for place, text in parts.items())


def shown(text: str) -> str:
    """Return the text with its escape codes made readable, and without what differs in each checkout of a run."""
    text = re.sub(r"\b\d{4}-\d\d-\d\d \d\d:\d\d  -  -  \d+(\s+)KiB", r"2026-11-30 03:18  -  -  28\1KiB", text)
    return re.sub(r"\x1b\[([\d;]*)([A-Za-z])", r"{\1\2}", text)


if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    for name in COMMANDS:
        (GOLDEN / f"{name}.txt").write_text(all_of(name))
