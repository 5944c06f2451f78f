"""What the live view costs beside three runs on eight GPUs: the time of a core, and how soon it is there."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from live_runs import live_runs
from watch_session import Session

SECONDS = 20
_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (120, 40), (200, 60)])
def test_the_live_view_costs_at_most_two_percent_of_a_core(tmp_path, columns, rows):
    with live_runs(tmp_path, message="it grows", gpus=8):
        session = Session(tmp_path, columns=columns, rows=rows)
        try:
            session.until("q quit")
            first = cpu_seconds(session.process.pid)
            begin = time.monotonic()
            while time.monotonic() - begin < SECONDS:
                session.until("q quit")
            share = (cpu_seconds(session.process.pid) - first) / (time.monotonic() - begin)
        finally:
            session.close()
    print(f"{columns}x{rows}: {share:.2%} of a core; first screen after {first:.2f} s of CPU")
    assert share <= 0.02
    assert first <= 0.5
