"""One child of `--deep`: runs its trials one by one, and may die or hang in any of them."""

from __future__ import annotations

import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Any

from oomph.gpu.child import kill_group, parse
from oomph.terminal.endings import ProcessEnd
from oomph.terminal.ticking import Ticking

Say = Callable[[str], None]
_LOOK_SECONDS, _REAP_SECONDS = 0.1, 10.0


@dataclass(frozen=True)
class Limits:
    """How long a child may be silent, in seconds."""

    importing: float = 120.0
    trial: float = 90.0


@dataclass
class Life:
    """What is known about a child: its finished trials, the current one, and how it died."""

    rows: list[Mapping[str, Any]] = field(default_factory=list)
    begun: str = ""
    problem: str = ""
    stderr: bytes = b""

    def hear(self, line: bytes, say: Say) -> None:
        """Read a line that it printed, and report when a trial begins."""
        facts, rows = parse(line)
        self.rows += rows
        begun = str(facts.get("begun") or "")
        if begun:
            self.begun = begun
            say(begun)


def live(command: Sequence[str], environ: Mapping[str, str], limits: Limits, say: Say) -> Life:
    """Run a child to its end, or until it is silent for too long. What it printed on stderr is kept."""
    life = Life()
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            list(command),
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
        assert process.stdout is not None
        _listen(process, process.stdout, life, limits, say)
        try:
            process.wait(_REAP_SECONDS)
        except subprocess.TimeoutExpired:
            pass  # it waits in the kernel for a broken driver, and cannot be killed
        life.problem = life.problem or ProcessEnd(process.returncode or 0).problem
        log.seek(0)
        life.stderr = log.read()
    return life


def _listen(process: subprocess.Popen[bytes], output: IO[bytes], life: Life, limits: Limits, say: Say) -> None:
    """Read its lines as they come; kill it if none comes for too long."""
    lines: list[bytes] = []
    reader = threading.Thread(target=lambda: lines.extend(iter(output.readline, b"")), daemon=True)
    reader.start()
    seen, heard, ticking = 0, time.monotonic(), Ticking()
    while reader.is_alive() or seen < len(lines):
        reader.join(_LOOK_SECONDS)
        ticking.tick(f"trying {life.begun or 'to start'}")
        for line in lines[seen:]:
            life.hear(line, say)
            seen, heard, ticking = seen + 1, time.monotonic(), Ticking()
        limit = limits.importing if life.begun in ("", "import") else limits.trial
        if time.monotonic() - heard > limit:
            kill_group(process)
            life.problem = f"no answer within {limit:.0f} s"
            reader.join(_REAP_SECONDS)
            break
    if not reader.is_alive():
        output.close()
