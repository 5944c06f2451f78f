"""Question: queries a driver or library in a small process that may hang or die, for `oomph doctor` and `oomph run`."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from oomph.process.child import Child
from oomph.process.own_process import isolated_command, isolated_environ, without_own_variables
from oomph.terminal.endings import ProcessEnd

_HERE = Path(__file__).parent
_REAP_SECONDS = 0.2
_SILENT_SECONDS = 2.0


@dataclass(frozen=True)
class Answer:
    """The answer of a child process, and any problem with the process."""

    facts: Mapping[str, Any] = field(default_factory=dict)
    """The last value for each key. Repeated `row` keys are collected in `rows` instead."""
    rows: tuple[Mapping[str, Any], ...] = ()
    """The rows that the child printed, one for each GPU or library."""
    problem: str = ""
    """The reason for an incomplete answer, such as "no answer within 5 s" or "ended by SIGSEGV"; empty if it is
    complete."""


class Question:
    """A question that runs in a separate process, which is killed if it does not answer in time."""

    def __init__(self, script: str, words: Sequence[str], environ: Mapping[str, str], bare: bool = True) -> None:
        """Start the process. `bare` runs Python without site-packages, for scripts that do not need them."""
        python, environ = [sys.executable, "-I", "-S", str(_HERE / script)], without_own_variables(environ)
        if not bare:
            python, environ = isolated_command(f"{__package__}.{Path(script).stem}"), isolated_environ(environ)
        self._child: Child | None = None
        self._refused = ""
        try:
            self._child = Child([*python, *words], environ, reap_seconds=_REAP_SECONDS)
        except OSError as error:
            self._refused = f"could not be started: {error.strerror}"

    def answer(self, deadline: float, limit: float, slow: Callable[[], None] = lambda: None) -> Answer:
        """Return the child's answer up to the deadline (in `time.monotonic` time). Never raises.

        `limit` is only used in messages. `slow` is called if the answer takes longer than `_SILENT_SECONDS`.
        """
        if self._child is None:
            return Answer(problem=self._refused)
        with self._child as child:
            silent_until = time.monotonic() + _SILENT_SECONDS
            said = child.listen(min(silent_until, deadline))
            if child.returncode is None and silent_until < deadline:
                slow()
                said += child.listen(deadline)
            code = child.returncode
        facts, rows = parse(said)
        problem = f"no answer within {limit:g} s" if code is None else ProcessEnd(code).problem
        return Answer(facts, tuple(rows), problem)


def parse(said: bytes) -> tuple[dict[str, Any], list[Mapping[str, Any]]]:
    """Parse the facts and rows in a child's output."""
    facts: dict[str, Any] = {}
    rows: list[Mapping[str, Any]] = []
    for line in said.decode("utf-8", "replace").splitlines():
        try:
            document = json.loads(line)
        except ValueError:
            continue  # an incomplete line from a child that died, or output from a library
        if isinstance(document, dict):
            row = document.pop("row", None)
            facts |= document
            if isinstance(row, dict):
                rows.append(row)
    return facts, rows


_LIMIT_SECONDS = 5.0


class Installed(NamedTuple):
    """A GPU in this machine."""

    name: str
    total_bytes: int
    used_bytes: int = 0
    """The memory, in bytes, that all processes and the driver currently hold."""


def installed(environ: Mapping[str, str]) -> tuple[tuple[Installed, ...], str]:
    """Return the GPUs visible to the script, and why any of them did not answer (empty if all did)."""
    answer = Question("ask_nvml.py", (), environ, bare=False).answer(time.monotonic() + _LIMIT_SECONDS, _LIMIT_SECONDS)
    found = [
        Installed(str(row["name"]), int(row["total_bytes"]), int(row.get("used_bytes") or 0))
        for row in answer.rows
        if row.get("name") and row.get("total_bytes")
    ]
    problem = answer.problem or str(answer.facts.get("unavailable") or answer.facts.get("error") or "")
    return tuple(_visible(found, environ.get("CUDA_VISIBLE_DEVICES"))), problem


def _visible(found: list[Installed], visible: str | None) -> list[Installed]:
    """Return the GPUs that CUDA_VISIBLE_DEVICES lists by number, or all if it is unset or does not use numbers."""
    if visible is None:
        return found
    numbers = [each.strip() for each in visible.split(",")]
    if not all(number.isdigit() for number in numbers):
        return [] if numbers[0] in ("", "-1") else found
    return [found[int(number)] for number in numbers if int(number) < len(found)]


def cuda_version(number: int) -> tuple[int, int]:
    """Decode a version number from cuDriverGetVersion or cudaRuntimeGetVersion: 12050 is (12, 5)."""
    return number // 1000, number % 1000 // 10


def cudnn_version(number: int) -> tuple[int, int, int]:
    """Decode a number from cudnnGetVersion, whose formula changed in cuDNN 9: 90300 is (9, 3, 0), 8907 is (8, 9, 7)."""
    if number >= 90000:
        return number // 10000, number // 100 % 100, number % 100
    return number // 1000, number // 100 % 10, number % 100
