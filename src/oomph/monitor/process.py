"""The parent's end of the sampler: starts it, receives its findings, ends it. Supervisor or script process.

Everything here fails open: without a sampler the training goes on, and nothing waits for it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from oomph.monitor.finding import Finding, FindingChanges, from_documents
from oomph.process.child import Child
from oomph.process.own_process import isolated_command, isolated_environ, without_own_variables

_MODULE = "oomph.monitor.sampler"
_SEARCH_PATHS = {"PATH", "LD_LIBRARY_PATH"}
_END_SECONDS, _REAP_SECONDS = 1.0, 0.1


class SamplerProcess:
    """The sampler process of one run. It exits when this process ends, however that happens.

    Args:
        run_dir: where it keeps its samples; must exist.
        script_pid: the process whose descendants are watched; None for all descendants of this process.
    """

    def __init__(self, run_dir: Path, script_pid: int | None = None) -> None:
        self.problem = ""
        """The reason that there are no samples, in words; empty if all is well."""
        self._last: list[bytes] = []
        self._closed = False
        self._process: Child | None = None
        try:
            self._process = _start(run_dir, script_pid)
        except OSError as error:
            self.problem = f"the sampler cannot be started: {error.strerror}"

    @property
    def alive(self) -> bool:
        """True if the sampler is running."""
        return self._process is not None and self._process.returncode is None

    def changes(self) -> FindingChanges:
        """Return the changes in its findings since the last call. Does not wait."""
        was_ended = not (self._closed or self.alive)  # asked first: what it said last comes before its end
        lines, self._last = self._last, []
        if self._process is not None and not self._closed:
            lines = self._process.lines()
        changes = from_documents([self._parse(line) for line in lines])
        if was_ended and self._process is not None:
            self._process.end()
            self.problem = self.problem or "the sampler was ended: nothing more is measured"
        return changes

    def findings(self) -> tuple[Finding, ...]:
        """Return the new findings since the last call, without those that recurred or are over."""
        return self.changes().told

    def close(self) -> None:
        """End the sampler, waiting for a second at most. Its findings can still be read."""
        if self._process is None or self._closed:
            return
        self._closed = True
        self._process.end()
        self._last = self._process.lines()
        self._process.close()

    def _parse(self, line: bytes) -> Any:
        """Parse a line from the sampler, and keep the problem in it, if any."""
        try:
            document = json.loads(line)
        except (ValueError, RecursionError):
            return None
        if isinstance(document, dict) and isinstance(document.get("problem"), str):
            self.problem = document["problem"]
        return document


def _start(run_dir: Path, script_pid: int | None) -> Child:
    """Start the sampler in its own session, which Ctrl-C does not reach. Raises OSError.

    After SIGKILL, wait only briefly: a broken driver may hold it in the kernel.
    """
    command = isolated_command(_MODULE, os.path.abspath(run_dir), str(os.getpid()), str(script_pid or 0))
    environ = isolated_environ(_environ())
    return Child(command, environ, cwd="/", grace_seconds=_END_SECONDS, reap_seconds=_REAP_SECONDS)


def _environ() -> dict[str, str]:
    """Return the environment of this process, without relative search paths, which depend on the folder."""
    environ = without_own_variables(os.environ)
    for name in _SEARCH_PATHS & environ.keys():
        entries = (os.path.abspath(entry) for entry in environ[name].split(os.pathsep) if entry)
        environ[name] = os.pathsep.join(entries)
    return environ
