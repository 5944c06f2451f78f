"""Installs what `make demo` needs, and says how far it is: pip itself is silent for more than a minute.

Runs before anything is installed, so it needs nothing but Python.
"""

from __future__ import annotations

import fcntl
import os
import re
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

NEEDED_BYTES = 3 << 30
"""The room on the disk for TensorFlow and Keras, their downloads included."""
LINE_SECONDS, TICK_SECONDS = 5.0, 0.5
"""The time between two lines about the progress in a pipe, and on a terminal, where one line is rewritten."""

STAGES = (
    (re.compile(r"Collecting ([\w.-]+)"), "looking for {}"),
    (re.compile(r"Downloading (?:\S*/)?([\w.]+)-\S+(?<!\.metadata) \((.*)\)"), "downloading {}, {}"),
    (re.compile(r"WARNING: Retrying"), "trying again: the package index does not answer"),
    (re.compile(r"Installing build dependencies"), "preparing to build oomph"),
    (re.compile(r"Installing collected packages"), "unpacking, for about a minute"),
)
"""What pip prints, and what it means. A line that matches none of these changes nothing."""

REASONS = {
    "ensurepip is not": "this Python lacks ensurepip; on Debian and Ubuntu, apt install python3-venv brings it",
    "No space left on device": "the disk is full",
    "ProxyError": "the proxy refuses; HTTPS_PROXY names it",
    "NewConnectionError": "the package index cannot be reached; behind a proxy, set HTTPS_PROXY",
    "NameResolutionError": "the package index cannot be reached; behind a proxy, set HTTPS_PROXY",
    "SSLError": "the package index has a certificate that Python does not trust; PIP_CERT names one to trust",
}
"""What the output contains when a command fails, the more specific first, and the cause in one sentence."""


def main(venv: str, packages: str) -> int:
    """Install the packages in the virtual environment, which is created if it is missing."""
    folder = Path(venv).absolute()
    if shutil.disk_usage(folder.parent).free < NEEDED_BYTES:
        return failed(f"TensorFlow needs {NEEDED_BYTES >> 30} GiB of free disk, and {folder.parent} has less")
    print(
        f"Installing oomph, TensorFlow and Keras in {venv}: 600 MB to download, 2 GB on the disk, 1 to 3 minutes.",
        flush=True,
    )
    python, log = folder / "bin/python", folder / "install.log"
    progress = Progress()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with log.open("a") as kept:
            if not is_locked(kept):
                return failed(f"another one is installing in {venv}: wait until it has finished")
            kept.truncate(0)
            made = python.exists() or create(folder, progress, kept)
            pip = [str(python), "-m", "pip", "install", "--progress-bar=off", "--editable", packages]
            installed = made and is_done(pip, progress, kept)
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        return failed(f"{venv} cannot be written: {error.strerror}")
    finally:
        progress.end()
    if not installed:
        what = "pip could not install what the demo needs" if made else f"{venv} cannot be made"
        return failed(f"{what}: {reason_in(log.read_text())} (all that was said: {log})")
    print(f"Installed in {progress.seconds:.0f} s.\n", flush=True)
    return 0


def is_locked(file: TextIO) -> bool:
    """Lock a file until it is closed, and return True, or False if another process has locked it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def create(folder: Path, progress: Progress, log: TextIO) -> bool:
    """Create the virtual environment, and return True; one that is not complete is without a Python."""
    progress.show("creating the virtual environment")
    is_whole = False
    try:
        is_whole = is_done([sys.executable, "-m", "venv", str(folder)], progress, log)
    finally:
        if not is_whole:
            (folder / "bin/python").unlink(missing_ok=True)
    return is_whole


def is_done(command: list[str], progress: Progress, log: TextIO) -> bool:
    """Run a command, show how far it is, keep what it says, and return True if it succeeds."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        for line in lines_of(process):
            log.write(line)
            progress.show(stage_of(line))
    return process.returncode == 0


def failed(why: str) -> int:
    """Say in one sentence why the demo cannot run, and return the exit code."""
    print(f"make demo: {why}", file=sys.stderr)
    return 1


def lines_of(process: subprocess.Popen[bytes]) -> Iterator[str]:
    """Yield each line of the output; while there is none, an empty one now and then."""
    assert process.stdout is not None
    fd, half = process.stdout.fileno(), b""
    while True:
        if not select.select([fd], [], [], TICK_SECONDS)[0]:
            yield ""
            continue
        piece = os.read(fd, 1 << 16)
        if not piece:
            return
        *whole, half = (half + piece).split(b"\n")
        for line in whole:
            yield line.decode(errors="replace") + "\n"


def stage_of(line: str) -> str:
    """Return what a line of pip's tells about the progress, or an empty string."""
    for pattern, words in STAGES:
        found = pattern.match(line.lstrip())
        if found:
            return words.format(*found.groups())
    return ""


def reason_in(output: str) -> str:
    """Return the cause of a failure, or the last error in the output."""
    for sign, cause in REASONS.items():
        if sign in output:
            return cause
    errors = [line.removeprefix("ERROR: ") for line in output.splitlines() if line.startswith("ERROR: ")]
    return errors[-1] if errors else "it says nothing about why"


class Progress:
    """A line that says what is done and since when: rewritten on a terminal, repeated in a file or a pipe."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._shown = float("-inf")
        self._what = "starting"
        self._rewrites = sys.stdout.isatty()

    @property
    def seconds(self) -> float:
        """The time since the beginning, in seconds."""
        return time.monotonic() - self._started

    def show(self, what: str) -> None:
        """Show the line, if it is time to; `what` may be empty if nothing has changed."""
        self._what = what or self._what
        if self.seconds - self._shown < (TICK_SECONDS if self._rewrites else LINE_SECONDS):
            return
        self._shown = self.seconds
        line = f"  {self.seconds:3.0f} s  {self._what}"
        if self._rewrites:
            line = f"\r{line[: shutil.get_terminal_size().columns - 1]}\x1b[K"
        print(line, end="" if self._rewrites else "\n", flush=True)

    def end(self) -> None:
        """Remove the line from a terminal."""
        if self._rewrites:
            print("\r\x1b[K", end="", flush=True)


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
