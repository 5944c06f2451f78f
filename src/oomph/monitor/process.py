"""The parent's end of the sampler: starts it, receives its findings, and stops it.

The parent is the supervisor or the script process.

Everything here fails open: training continues without a sampler, and nothing waits for it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from oomph.monitor.finding import FindingChanges, from_documents
from oomph.process.child import Child
from oomph.process.own_process import isolated_command, isolated_environ, without_own_variables

_MODULE = "oomph.monitor.sampler"
_SEARCH_PATHS = {"PATH", "LD_LIBRARY_PATH"}
_END_SECONDS, _REAP_SECONDS = 1.0, 0.1


class SamplerProcess:
    """The sampler process of a run. It exits when this process does, for whatever reason.

    Args:
        run_dir: the folder where it stores its samples, which must exist.
        script_pid: the process to watch along with its descendants, or None to watch all descendants of this process.
    """

    def __init__(self, run_dir: Path, script_pid: int | None = None) -> None:
        self.problem = ""
        """The reason why samples are missing; empty if all is well."""
        self._last: list[bytes] = []
        self._closed = False
        self._process: Child | None = None
        try:
            self._process = _start(run_dir, script_pid)
        except OSError as error:
            self.problem = f"cannot start the sampler: {error.strerror}"

    @property
    def alive(self) -> bool:
        """True if the sampler is running."""
        return self._process is not None and self._process.returncode is None

    def changes(self) -> FindingChanges:
        """Return the changes in the sampler's findings since the last call. Does not wait."""
        was_ended = not (self._closed or self.alive)  # first, so that its last lines are read before it ends
        lines, self._last = self._last, []
        if self._process is not None and not self._closed:
            lines = self._process.lines()
        changes = from_documents([self._parse(line) for line in lines])
        if was_ended and self._process is not None:
            self._process.end()
            self.problem = self.problem or "the sampler exited: nothing is being measured"
        return changes

    def close(self) -> None:
        """Stop the sampler, waiting for at most a second. Its last findings can still be read."""
        if self._process is None or self._closed:
            return
        self._closed = True
        self._process.end()
        self._last = self._process.lines()
        self._process.close()

    def _parse(self, line: bytes) -> Any:
        """Parse a line from the sampler. If the line reports a problem, store it."""
        try:
            document = json.loads(line)
        except (ValueError, RecursionError):
            return None
        if isinstance(document, dict) and isinstance(document.get("problem"), str):
            self.problem = document["problem"]
        return document


def _start(run_dir: Path, script_pid: int | None) -> Child:
    """Start the sampler in its own session, out of reach of Ctrl-C. Raises OSError if it cannot be started.

    After SIGKILL, the wait is short: a broken driver may keep the sampler stuck in the kernel.
    """
    command = isolated_command(_MODULE, os.path.abspath(run_dir), str(os.getpid()), str(script_pid or 0))
    environ = isolated_environ(_environ())
    return Child(command, environ, cwd="/", grace_seconds=_END_SECONDS, reap_seconds=_REAP_SECONDS)


def _environ() -> dict[str, str]:
    """Return this process's environment with absolute search paths, since the sampler runs in a different folder."""
    environ = without_own_variables(os.environ)
    for name in _SEARCH_PATHS & environ.keys():
        entries = (os.path.abspath(entry) for entry in environ[name].split(os.pathsep) if entry)
        environ[name] = os.pathsep.join(entries)
    return environ
