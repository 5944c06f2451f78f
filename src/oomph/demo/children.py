"""Runs the demonstration's child processes one at a time, and kills the script when the scenario says so."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import psutil

from oomph.demo.claims import OUT_OF_MEMORY, ChildEnding, Compared
from oomph.errors import OomphError
from oomph.journal.events import ProcessStarted
from oomph.journal.journal import facts, read_journal
from oomph.process.child import Child
from oomph.process.own_process import isolated_command, isolated_environ
from oomph.protocol.progress import read_progress
from oomph.terminal.console import Ticking
from oomph.terminal.message import PREFIX

LONGEST_SECONDS = 240.0
"""The time, in seconds, after which a child counts as stuck; normally, none takes that long."""
_POLL_SECONDS = 0.01
_GRACE_SECONDS = 10.0

Say = Callable[[str], None]


class DemoError(OomphError):
    """Raised if the demonstration could not be completed, so that it neither confirms nor refutes the claims."""


def run_plain(words: Sequence[str], environ: Mapping[str, str], log: Path, python: str = sys.executable) -> ChildEnding:
    """Run the script with plain Python."""
    started = time.monotonic()
    with _started([python, *words], environ, log) as child:
        code = _wait(child, started, lambda: None)
    return ChildEnding(code, time.monotonic() - started, _error_in(log))


def run_killed(
    command: Sequence[str], run_dir: Path, kill_at: int, environ: Mapping[str, str], log: Path, say: Say
) -> tuple[ChildEnding, bool]:
    """Run an `oomph run` command, and kill the script after `kill_at` steps; also return whether it was killed."""
    started, killed = time.monotonic(), False
    with (
        _started(command, isolated_environ(environ), log) as child,
        log.open(encoding="utf-8", errors="replace") as output,
    ):
        tail = _Tail(output.readline, say)

        def watch() -> None:
            nonlocal killed
            tail.show()
            if not killed and (pid := _due(run_dir, kill_at, child.pid)) is not None:
                killed = _kill(pid)
                say(f"demo: kill -9 {pid}")

        code = _wait(child, started, watch)
        tail.show()
    return ChildEnding(code, time.monotonic() - started, _error_in(log) if code else ""), killed


def under_oomph(python: str, run_dir: Path, every: int, words: Sequence[str]) -> list[str]:
    """Return the command that runs the script under `oomph run`."""
    options = [f"--python={python}", f"--run-dir={run_dir}", f"--checkpoint-every={every}"]
    return isolated_command("oomph.__main__", "run", *options, *words)


def compare(first: Path, second: Path, python: str = sys.executable) -> Compared:
    """Compare two results in a child process, since the comparison needs NumPy."""
    script = Path(__file__).parent / "live" / "weights.py"
    done = subprocess.run(
        [python, str(script), str(first), str(second)], capture_output=True, text=True, timeout=LONGEST_SECONDS
    )
    if done.returncode:
        raise DemoError(f"{second.name} cannot be compared with {first.name}: {done.stderr.strip()}")
    found = json.loads(done.stdout)
    expected, accuracy = found["accuracies"]
    return Compared((expected, accuracy), tuple(found["dtypes"]), float(found["difference"]))


class _Tail:
    """Passes oomph's lines on from a growing log."""

    def __init__(self, readline: Callable[[], str], say: Say) -> None:
        self._readline, self._say, self._half = readline, say, ""

    def show(self) -> None:
        """Pass on the lines from oomph that were written since the last call."""
        while piece := self._readline():
            self._half += piece
            if not self._half.endswith("\n"):
                return
            line, self._half = self._half.rstrip("\n"), ""
            if line.startswith(PREFIX):
                self._say(line)


def _due(run_dir: Path, kill_at: int, supervisor: int) -> int | None:
    """Return the PID to kill now, or None before `kill_at` steps or if no step has followed a checkpoint."""
    progress = read_progress(run_dir)
    if progress is None or progress.steps < kill_at or not 0 < progress.saved < progress.steps:
        return None
    pids = [each.pid for each in facts(read_journal(run_dir), ProcessStarted)]
    try:
        ours = {process.pid for process in psutil.Process(supervisor).children(recursive=True)}
    except psutil.Error:
        return None  # the run has just finished
    return next((pid for pid in pids if pid in ours), None)


def _kill(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False  # the process has just exited on its own
    return True


def _started(command: Sequence[str], environ: Mapping[str, str], log: Path) -> Child:
    """Start a process with its output going to a file. It stays in oomph's session, so that Ctrl-C reaches it."""
    with log.open("wb") as output:
        return Child(
            command, environ, stdout=output, stderr=subprocess.STDOUT, cwd=log.parent,
            own_session=False, grace_seconds=_GRACE_SECONDS,
        )  # fmt: skip


def _wait(child: Child, started: float, watch: Callable[[], None]) -> int:
    """Wait for a child and return its exit code. Raises DemoError if it takes too long."""
    with Ticking() as ticking:
        while not child.wait(_POLL_SECONDS):
            ticking.tick("training")
            watch()
            if time.monotonic() - started > LONGEST_SECONDS:
                raise DemoError(f"training did not finish within {LONGEST_SECONDS:.0f} s")
    return child.returncode or 0


def _error_in(log: Path) -> str:
    """Return the line in the log that names the child's error, with the size of the failed allocation."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    name = next((line for line in lines if OUT_OF_MEMORY in line), "")
    request = next((line.strip().split(" on /job:")[0] for line in lines if "OOM when allocating" in line), "")
    if name:
        return f"{OUT_OF_MEMORY}: {request or name.strip()}"
    return lines[-1].strip()[:200] if lines else ""
