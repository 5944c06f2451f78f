"""Makes run directories of several workers, through the real writers, with clocks and hosts as given."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from unittest import mock

from oomph.files.oomph_folder import folder_of
from oomph.files.opening import make_own_folder
from oomph.journal.events import (
    AttemptEnded,
    AttemptStarted,
    Decided,
    Diagnosed,
    FindingMade,
    Hung,
    RunEnded,
    RunStarted,
    WorkerFailed,
)
from oomph.journal.fact import Fact
from oomph.journal.journal import Journal
from oomph.monitor.pace import PaceBoard, PaceReading
from oomph.monitor.sample import Sample
from oomph.monitor.store import Store
from oomph.process.process_identity import ProcessIdentity
from oomph.run.directory.run_directory import FINISHED, RunDirectory, RunRecord

BEGIN = 1_790_000_000.0
GIB = 1 << 30


def readings(
    seconds: int,
    own: float = 0.2,
    step: float = 0.3,
    wait: float = 0.01,
    attempt: int = 1,
    begin: float = BEGIN,
    every: int = 1,
    steps_before: int = 0,
) -> Iterator[PaceReading]:
    """Yield a reading every so many seconds of a worker that needs `own` seconds in each step before it is ready."""
    for after in range(0, seconds, every):
        steps = int(after / step)
        yield PaceReading(
            attempt, begin + after, 1000.0 + attempt * 1e6 + after, steps_before + steps, steps * step, steps * wait,
            steps * (step - own), 4 * GIB, 8 * GIB, 2 * GIB + after * 1e5,
        )  # fmt: skip


def record(run: Path, rank: int, found: Iterable[PaceReading], owner: ProcessIdentity | None = None) -> None:
    """Write the readings of a worker as its process does, or as one on another host."""
    if rank:
        make_own_folder(run, f"workers/{rank}")
    board = PaceBoard(folder_of(run, rank))
    if owner is not None:
        board._owner = owner.to_text().encode()
        board._write_head()
    for each in found:
        board.write(each)
    board.close()


def several(
    path: Path,
    workers: int,
    seconds: int = 600,
    late: Mapping[int, float] = {},
    hosts: Mapping[int, str] = {},
    clocks: Mapping[int, float] = {},
    hung: int | None = None,
    every: int = 1,
    status: str = FINISHED,
) -> Path:
    """A run of several workers, one of which may be late, or hang after two thirds so that all start again.

    Args:
        late: the own time of workers that need longer than 0.2 s of each step of 0.3 s.
        hosts: the hosts of workers that are not on the first one.
        clocks: by how many seconds a worker's clock is ahead.
        hung: the rank that hangs, with whose restart the run ends.
        every: the seconds between two readings.
    """
    attempts, until = (1, seconds) if hung is None else (2, seconds * 2 // 3)
    command = ("train.py", "--epochs", "3")
    place = RunRecord(command, "python3", "/home/me", "2026-09-21T14:13:20+0000", host="node-0", workers=workers)
    directory = RunDirectory.create(path, place)
    directory.update(status=status, attempts=attempts)
    directory.close()
    _journal(directory.path, 1, _first_attempt(until, hung, max(late, key=lambda rank: late[rank]) if late else None))
    if hung is not None:
        _journal(directory.path, 2, [(until + 20, AttemptStarted()), (seconds, AttemptEnded(returncode=0))])
    if status == FINISHED:
        over = [(seconds, Decided(action="finish", exit_code=0)), (seconds, RunEnded(exit_code=0))]
        _journal(directory.path, attempts, over)
    for rank in range(workers):
        host = hosts.get(rank, "node-0")
        begin, own = BEGIN + clocks.get(rank, 0.0), late.get(rank, 0.2 + rank % 7 * 0.001)
        found = [*readings(until, own, begin=begin, every=every)]
        if hung is not None:
            again = {"attempt": 2, "begin": begin + until + 40, "steps_before": int(until / 0.3)}
            found += readings(seconds - until - 40, own, every=every, **again)  # type: ignore[arg-type]
        record(directory.path, rank, found, ProcessIdentity(100 + rank, host, f"boot-{host}", "7"))
    store = Store(directory.path)
    for after in range(0, seconds, max(every, 1)):
        steps = after / 0.3
        training = {"steps_total": steps, "step_seconds_total": after * 0.99, "recent_loss": 1 / (1 + after)}
        store.append(Sample(BEGIN + after, (), {"memory_used_bytes": 9 * GIB}, {"resident_bytes": 3 * GIB}, training))
    store.close()
    return directory.path


def _first_attempt(until: int, hung: int | None, late: int | None) -> Iterator[tuple[float, Fact]]:
    yield 0, RunStarted(oomph="0.1.0")
    yield 0, AttemptStarted(python="python3", command=("python3", "train.py"))
    if late is not None:
        why = "the others wait for it 90.0 ms in every step of 300.0 ms: its own part takes longer"
        yield 120, FindingMade(fault="straggler", code="DST707", subject=f"worker {late}", message=why, kind="worker")
    if hung is not None:
        line = "train.py:42 in load"
        yield until, Hung(worker=hung, phase="LOOP", seconds=60.0, limit_seconds=60.0, line=line)
        yield until, WorkerFailed(worker=hung, returncode=-9, fault="hang", cause=True)
        yield until, Diagnosed(fault="hang", code="DST703")
        yield until, Decided(action="restart", reason="hang", ending={"fault": "hang", "returncode": -9, "hung": True})
        yield until, AttemptEnded(returncode=-9, seconds=float(until), steps=int(until / 0.3))
    else:
        yield until, AttemptEnded(returncode=0, seconds=float(until), steps=int(until / 0.3))


def _journal(run: Path, attempt: int, facts: Iterable[tuple[float, Fact]]) -> None:
    journal = Journal(run, attempt, "supervisor")
    for after, fact in facts:
        with mock.patch("time.time", return_value=BEGIN + after):
            journal.write(fact)
    journal.close()
