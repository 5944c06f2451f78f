"""One child of `--deep`: runs its trials one by one, and may die or hang in any of them."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from oomph.gpu.question import parse
from oomph.process.child import Child
from oomph.terminal.endings import ProcessEnd
from oomph.terminal.ticking import Ticking

Say = Callable[[str], None]
_LOOK_SECONDS, _REAP_SECONDS = 0.1, 10.0


@dataclass(frozen=True)
class SilenceLimits:
    """Limits for the silence of a child, in seconds."""

    importing: float = 120.0
    trial: float = 90.0


@dataclass
class Life:
    """The known facts about a child: its finished trials, the current one, and how it died."""

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


def live(command: Sequence[str], environ: Mapping[str, str], limits: SilenceLimits, say: Say) -> Life:
    """Run a child to its end, or until it is silent for too long. What it printed on stderr is kept."""
    life = Life()
    with tempfile.TemporaryFile() as log:
        with Child(command, environ, stderr=log) as child:
            _listen(child, life, limits, say)
            if not life.problem and child.wait(_REAP_SECONDS):
                life.problem = ProcessEnd(child.returncode or 0).problem
        log.seek(0)
        life.stderr = log.read()
    return life


def _listen(child: Child, life: Life, limits: SilenceLimits, say: Say) -> None:
    """Read its lines as they come, until there are no more, or none comes for too long."""
    heard, ticking = time.monotonic(), Ticking()
    while child.is_open:
        for line in child.lines(_LOOK_SECONDS):
            life.hear(line, say)
            heard, ticking = time.monotonic(), Ticking()
        ticking.tick(f"trying {life.begun or 'to start'}")
        limit = limits.importing if life.begun in ("", "import") else limits.trial
        if time.monotonic() - heard > limit:
            life.problem = f"no answer within {limit:.0f} s"
            return
