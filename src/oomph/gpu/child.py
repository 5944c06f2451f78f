"""Child: a small process that queries a driver or a library, and may hang or die. `oomph doctor` and `run` start it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from oomph.process.own_process import isolated_command, isolated_environ
from oomph.terminal.endings import ProcessEnd

_HERE = Path(__file__).parent
_REAP_SECONDS = 0.2
_SILENT_SECONDS = 2.0


@dataclass(frozen=True)
class Answer:
    """What a child printed, and how it ended."""

    facts: Mapping[str, Any] = field(default_factory=dict)
    """The last value of each key; repeated `row` keys are collected in `rows`."""
    rows: tuple[Mapping[str, Any], ...] = ()
    """The rows it printed: one for each GPU or library."""
    problem: str = ""
    """Why the answer is incomplete: "no answer within 5 s", "ended by SIGSEGV"; empty if it is complete."""


class Child:
    """A running child. The wait for its answer has a time limit; a hanging child is killed and abandoned."""

    def __init__(self, script: str, words: Sequence[str], environ: Mapping[str, str], bare: bool = True) -> None:
        """`bare` starts Python without site-packages, for a child that needs the standard library only."""
        python = [sys.executable, "-I", "-S", str(_HERE / script)]
        if not bare:
            python, environ = isolated_command(f"{__package__}.{Path(script).stem}"), isolated_environ(_clean(environ))
        self._process: subprocess.Popen[bytes] | None = None
        self._refused = ""
        try:
            self._process = subprocess.Popen(
                [*python, *words],
                env=_clean(environ) if bare else environ,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            self._refused = f"could not be started: {error.strerror}"

    def answer(self, deadline: float, limit: float, slow: Callable[[], None] = lambda: None) -> Answer:
        """What it prints until the deadline (of time.monotonic). Never raises; `limit` appears in the message only.

        `slow` is called if it takes longer than `_SILENT_SECONDS`.
        """
        if self._process is None:
            return Answer(problem=self._refused)
        try:
            out = self._wait(deadline, slow)
        except subprocess.TimeoutExpired as expired:
            return _answer(self._abandon(expired.stdout or b""), f"no answer within {limit:g} s")
        return _answer(out, ProcessEnd(self._process.returncode).problem)

    def _wait(self, deadline: float, slow: Callable[[], None]) -> bytes:
        assert self._process is not None
        left = max(deadline - time.monotonic(), 0.01)
        if left > _SILENT_SECONDS:
            try:
                return self._process.communicate(timeout=_SILENT_SECONDS)[0]
            except subprocess.TimeoutExpired:
                slow()
                left = max(deadline - time.monotonic(), 0.01)
        return self._process.communicate(timeout=left)[0]

    def _abandon(self, said: bytes) -> bytes:
        """Kill it. A process that waits in the kernel for a broken driver cannot be killed: do not wait for it."""
        assert self._process is not None
        kill_group(self._process)
        try:
            said, _ = self._process.communicate(timeout=_REAP_SECONDS)
        except subprocess.TimeoutExpired as expired:
            said = expired.stdout or said
        return said


def _clean(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if not name.startswith("OOMPH_")}


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that leads its own session, and everything it has started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (OSError, AttributeError):
        process.kill()  # it is gone, or this system has no groups


def parse(said: bytes) -> tuple[dict[str, Any], list[Mapping[str, Any]]]:
    """The facts and the rows in a child's output."""
    facts: dict[str, Any] = {}
    rows: list[Mapping[str, Any]] = []
    for line in said.decode("utf-8", "replace").splitlines():
        try:
            document = json.loads(line)
        except ValueError:
            continue  # half a line from a child that died, or a library's output
        if isinstance(document, dict):
            row = document.pop("row", None)
            facts |= document
            if isinstance(row, dict):
                rows.append(row)
    return facts, rows


def _answer(said: bytes, problem: str) -> Answer:
    facts, rows = parse(said)
    return Answer(facts, tuple(rows), problem)
