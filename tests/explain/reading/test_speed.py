"""A log of many different failures takes at most 16 times as long as one from training without any."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from oomph.explain.catalogue.catalogue import load
from oomph.explain.diagnose import diagnose_log

pytestmark = pytest.mark.alone

LOGS = Path(__file__).parents[2] / "logs"
LINE = b"2024-01-01 10:00:00,123 INFO trainer: worker 12 did step 1234 in 0.123 s, loss 0.1234 lr 0.001 norm 1.23\n"
TIMES = 20
"""The number of times the failures are repeated: the first megabytes, in which each is new, cost more."""
AT_MOST = 16
"""The ratio to the healthy log's time: 10 on a busy machine, and 28 if every line was examined again."""


def seconds(log: bytes) -> float:
    """Return the CPU time of the faster of two runs."""
    return min(timed(log), timed(log))


def timed(log: bytes) -> float:
    started = time.process_time()
    diagnose_log(log)
    return time.process_time() - started


def test_mixed_failure_log_is_not_much_slower_to_read_than_a_healthy_one() -> None:
    logs = [path.read_bytes() for path in sorted(LOGS.rglob("*.log"))]
    logs += [fault.example.encode() for fault in load()]
    mixed = b"".join(LINE * 50 + log + b"\n" for log in logs) * TIMES
    assert seconds(mixed) <= AT_MOST * seconds(LINE * (len(mixed) // len(LINE)))
