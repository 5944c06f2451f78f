"""Lines from real logs, each after the code of its fault: most of what was ever recorded is still named.

Most of these lines were written beside the wordings that recognised them, and many of those wordings are gone since.
"""

from __future__ import annotations

from pathlib import Path

from oomph.explain.diagnose import diagnose_log

RECORDED = Path(__file__).with_name("recorded_wordings.txt")
TRACEBACK = 'Traceback (most recent call last):\n  File "train.py", line 30, in <module>\n    model.fit(x, y)\n'


def codes(line: str, code: str) -> list[str]:
    """Return what the line is called: as it stands or, if that is not its fault, as the end of a traceback."""
    alone, ended = ([found.code for found in diagnose_log(log.encode())] for log in (line, TRACEBACK + line))
    return alone if code in alone[:1] else ended


def test_recorded_lines_are_named_as_before() -> None:
    lines = [line.partition(" ") for line in RECORDED.read_text(encoding="utf-8").splitlines()]
    named = [(code, codes(line, code)) for code, _, line in lines]
    assert sum(code in found[:1] for code, found in named) >= 0.96 * len(lines)
    assert sum(code in found[:3] for code, found in named) >= 0.97 * len(lines)
