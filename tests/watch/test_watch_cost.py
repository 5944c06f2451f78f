"""What the live view costs beside three runs on eight GPUs: the time of a core, and how soon it is there."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from live_runs import live_runs
from watch_session import Session

from oomph.journal.events import CheckpointSaved, Recovered
from oomph.journal.fact import Fact
from oomph.journal.journal import Journal

SECONDS = 20
_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def share_of_a_core(folder: Path, columns: int, rows: int) -> tuple[float, float]:
    """Return what the view takes of a core, and the seconds of CPU until its first screen."""
    session = Session(folder, columns=columns, rows=rows)
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
    return share, first


def recoveries() -> Iterator[Fact]:
    """Yield the events of a script that recovers at every other step."""
    for step in itertools.count():
        yield Recovered(fit=0, epoch=0, step=step, batch=256, micro_batch=128, ooms=1, seconds=11.0)
        yield CheckpointSaved(fit=0, epoch=0, step=step, name=f"step-{step}", steps=step, bytes=1 << 20, seconds=0.1)


@contextmanager
def growing_journal(run: Path) -> Iterator[None]:
    """Fill the journal of a run with more than `oomph watch` keeps of it, and add five events a second."""
    journal, facts, ended = Journal(run, 1, "script"), recoveries(), threading.Event()
    for fact in itertools.islice(facts, 10_000):
        journal.write(fact)

    def write() -> None:
        while not ended.wait(0.2):
            journal.write(next(facts))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        ended.set()
        writer.join()
        journal.close()


SIZES = pytest.mark.parametrize(("columns", "rows"), [(80, 24), (120, 40), (200, 60)])


@pytest.mark.slow
@pytest.mark.alone
@SIZES
def test_the_live_view_costs_at_most_two_percent_of_a_core(tmp_path, columns, rows):
    with live_runs(tmp_path, message="it grows", gpus=8):
        share, first = share_of_a_core(tmp_path, columns, rows)
    assert share <= 0.02
    assert first <= 0.5


@pytest.mark.slow
@pytest.mark.alone
@SIZES
def test_it_costs_no_more_beside_a_long_journal_that_grows(tmp_path, columns, rows):
    with live_runs(tmp_path, message="it grows", gpus=8):
        with growing_journal(min((tmp_path / ".oomph/runs").iterdir())):
            share, _ = share_of_a_core(tmp_path, columns, rows)
    assert share <= 0.02
