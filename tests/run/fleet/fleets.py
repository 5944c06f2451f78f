"""Builds folders of runs on several machines, with the journals that `oomph run` writes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from oomph.journal.event import Event
from oomph.journal.events import AttemptEnded, AttemptStarted, Diagnosed, RunStarted
from oomph.journal.fact import Fact
from oomph.run.directory.run_directory import RunRecord

HARDWARE = Diagnosed(fault="hardware-fault", code="HWD801")
DAY = 86_400.0


def gpu(host: str, index: int) -> dict[str, Any]:
    return {
        "index": index,
        "uuid": f"GPU-{host}-{index}",
        "name": "NVIDIA H100",
        "bus": f"00000000:{index + 16:02X}:00.0",
    }


def run_on(
    folder: Path, name: str, *attempts: Sequence[Fact], host: str = "node-1", gpus: int = 0, script: str = "train.py"
) -> Path:
    """Write a run whose attempts, all on one host, have these facts beside their start and end."""
    run = folder / ".oomph" / "runs" / name
    (run / "journal").mkdir(parents=True)
    record = RunRecord((script,), "python", str(folder), "", status="finished", attempts=len(attempts), host=host)
    (run / "run.json").write_text(record.to_json())
    for number, happened in enumerate(attempts, 1):
        add_attempt(run, number, *happened, host=host, gpus=gpus, script=script)
    return run


def add_attempt(
    run: Path, number: int, *happened: Fact, host: str, gpus: int = 0, script: str = "train.py", rank: int = 0
) -> None:
    started = AttemptStarted(command=[script], host=host, gpus=[gpu(host, index) for index in range(gpus)])
    facts = [RunStarted(oomph="0"), started, *happened, AttemptEnded(returncode=-9 if happened else 0)]
    write(run / "journal" / f"{number}-{rank}-supervisor.jsonl", number, rank, "supervisor", facts)


def write(path: Path, attempt: int, rank: int, role: str, facts: Sequence[Fact]) -> None:
    times = range(1, len(facts) + 1)
    events = (Event(fact, attempt, rank, role, at, attempt * DAY + at) for fact, at in zip(facts, times, strict=True))
    path.write_text("".join(event.to_json() + "\n" for event in events))
