"""`oomph watch` in a terminal of its own, and what a terminal emulator shows of it."""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Any

import pyte

LIMIT = 20
_COLOUR = re.compile(r"\x1b\[[\d;]*m")


class Session:
    """`oomph watch` in the foreground of a terminal."""

    def __init__(self, folder: Path, code: str = "", columns: int = 80, rows: int = 24, **environ: str) -> None:
        self.ours, self.theirs = pty.openpty()
        self.resize(columns, rows)
        self.before = self.modes()
        command = ["-c", code] if code else ["-m", "oomph", "watch"]
        self.process = subprocess.Popen(
            [sys.executable, *command],
            cwd=folder,
            env={**os.environ, "TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8", **environ},
            stdin=self.theirs,
            stdout=self.theirs,
            stderr=self.theirs,
            preexec_fn=os.setpgrp,  # a separate job, as a shell starts it: Ctrl-Z does not stop an orphan
        )
        self.seen = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def modes(self) -> list[Any]:
        return termios.tcgetattr(self.theirs)

    def resize(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def until(self, pattern: str) -> str:
        """Read until the screen or the printed text matches; return everything since the last call."""
        begin, limit = len(self.seen), time.monotonic() + LIMIT
        while not re.search(pattern, _COLOUR.sub("", self.seen[begin:]), re.DOTALL):
            ready, _, _ = select.select([self.ours], [], [], max(limit - time.monotonic(), 0))
            assert ready, f"{pattern!r} did not come, but {self.seen[begin:]!r}"
            self.seen += self._decoder.decode(os.read(self.ours, 65536))
        return self.seen[begin:]

    def screen(self) -> pyte.Screen:
        """Return what an emulator of this size shows after everything that was read."""
        screen = pyte.Screen(self.columns, self.rows)
        pyte.Stream(screen).feed(self.seen)
        return screen

    def wait_until_stopped(self) -> None:
        limit = time.monotonic() + LIMIT
        stat = Path(f"/proc/{self.process.pid}/stat")
        while stat.read_text().rpartition(")")[2].split()[0] != "T":
            assert time.monotonic() < limit
            time.sleep(0.01)

    def press(self, keys: str) -> None:
        os.write(self.ours, keys.encode())

    def end(self) -> int:
        """Return the exit code of the process, which must exit now, and read the rest of its output."""
        limit = time.monotonic() + LIMIT
        while self.process.poll() is None and time.monotonic() < limit:
            if select.select([self.ours], [], [], 0.05)[0]:
                self.seen += self._decoder.decode(os.read(self.ours, 65536))
        while select.select([self.ours], [], [], 0)[0]:
            self.seen += self._decoder.decode(os.read(self.ours, 65536))
        return self.process.wait(1)

    def close(self) -> None:
        self.process.kill()
        self.process.wait(LIMIT)
        os.close(self.ours)
        os.close(self.theirs)
