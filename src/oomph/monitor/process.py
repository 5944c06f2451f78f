"""The parent's end of the sampler: starts it, hears what it finds, ends it. Supervisor or script process.

Everything here fails open: without a sampler the training goes on, and nothing waits for it.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from oomph.monitor.changes import Changes, from_documents
from oomph.monitor.finding import Finding
from oomph.process.own_process import isolated_command, isolated_environ

_MODULE = "oomph.monitor.sampler"
_SEARCH_PATHS = {"PATH", "LD_LIBRARY_PATH"}
_END_SECONDS = 1.0
_READ_BYTES = 65536
_MOST_BYTES = 1 << 20
"""A line that is longer is not ours."""


class SamplerProcess:
    """A sampler at work for a run. It ends by itself when this process ends, however that happens.

    Args:
        run_dir: where it keeps its samples; it has to exist.
        script_pid: the process whose descendants are watched; None: all descendants of this process.
    """

    def __init__(self, run_dir: Path, script_pid: int | None = None) -> None:
        self.problem = ""
        """Why there are no samples, in words; empty while nothing is wrong."""
        self._said = b""
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._process = _start(run_dir, script_pid)
        except OSError as error:
            self.problem = f"the sampler cannot be started: {error.strerror}"

    @property
    def alive(self) -> bool:
        """Whether it is running."""
        return self._process is not None and self._process.poll() is None

    @property
    def _is_open(self) -> bool:
        return self._process is not None and self._process.stdout is not None and not self._process.stdout.closed

    def changes(self) -> Changes:
        """What has changed in what it finds since the last call. Does not wait."""
        was_ended = self._is_open and not self.alive  # asked first: what it said last comes before its end
        *lines, self._said = (self._said + self._read()).split(b"\n")
        if len(self._said) > _MOST_BYTES:
            self._said = b""
        changes = from_documents([self._parse(line) for line in lines])
        if was_ended and not self.problem:
            self.problem = "the sampler was ended: nothing more is measured"
        return changes

    def findings(self) -> tuple[Finding, ...]:
        """Its new findings since the last call, without those that have come back or are over."""
        return self.changes().told

    def close(self) -> None:
        """End it, and wait for it a second at most. What it has found can still be asked for."""
        if self._process is None or self._process.stdout is None or not self._is_open:
            return
        self._process.terminate()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()  # not waited for: a call into a broken driver may hold it in the kernel
        self._said += self._read()
        self._process.stdout.close()

    def _read(self) -> bytes:
        """All that the pipe holds. It does not block, and its end is not waited for: a fork may hold it open."""
        said = b""
        if self._process is None or self._process.stdout is None or not self._is_open:
            return said
        try:
            while len(said) < _MOST_BYTES and (data := os.read(self._process.stdout.fileno(), _READ_BYTES)):
                said += data
        except OSError:
            pass  # nothing more at the moment; or the script has closed what is not its own
        return said

    def _parse(self, line: bytes) -> Any:
        """What a line says; a problem is kept here."""
        try:
            document = json.loads(line)
        except (ValueError, RecursionError):
            return None
        if isinstance(document, dict) and isinstance(document.get("problem"), str):
            self.problem = document["problem"]
        return document


def _start(run_dir: Path, script_pid: int | None) -> subprocess.Popen[bytes]:
    """Start it in a session of its own: Ctrl-C in the terminal is not for it. Raises OSError."""
    process = subprocess.Popen(
        isolated_command(_MODULE, os.path.abspath(run_dir), str(os.getpid()), str(script_pid or 0)),
        env=isolated_environ(_environ()),
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert process.stdout is not None
    os.set_blocking(process.stdout.fileno(), False)
    return process


def _environ() -> dict[str, str]:
    """The environment of this process, whose relative search paths would mean something else in another folder."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("OOMPH_")}
    for name in _SEARCH_PATHS & environ.keys():
        entries = (os.path.abspath(entry) for entry in environ[name].split(os.pathsep) if entry)
        environ[name] = os.pathsep.join(entries)
    return environ
