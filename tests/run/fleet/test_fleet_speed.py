"""The machines of 10,000 runs are compared within 10 s and 500 MB, on two cores."""

from __future__ import annotations

import random
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from fleets import HARDWARE, gpu

from oomph.doctor.snapshot import CudaDevice, Driver, NvmlAnswers, NvmlDevice, Snapshot
from oomph.journal.event import Event
from oomph.journal.events import (
    AttemptEnded,
    AttemptStarted,
    CheckpointSaved,
    Decided,
    FitStarted,
    GuardInstalled,
    KernelLogRead,
    MachineSeen,
    ProcessStarted,
    RunEnded,
    RunStarted,
)
from oomph.journal.fact import Fact
from oomph.run.directory.run_directory import RunRecord

RUNS, HOSTS, GPUS = 10_000, 64, 8
SECONDS, MEGABYTES = 10.0, 500
BAD, LIMIT = "node-07", 120


def lines(role: str, facts: list[Fact], attempt: int = 1) -> str:
    each = (Event(fact, attempt, 0, role, at, 1.7e9 + at) for at, fact in enumerate(facts, 1))
    return "".join(event.to_json() + "\n" for event in each)


def supervisors(host: str, is_bad: bool) -> str:
    """The journal of the supervisor on a machine with eight GPUs, about 10 kB, as `oomph run` writes it."""
    gpus = [gpu(host, index) for index in range(GPUS)]
    nvml = tuple(NvmlDevice(each["index"], each["name"], each["uuid"], each["bus"], 80 << 30, 1, 1) for each in gpus)
    cuda = tuple(CudaDevice(each["index"], each["name"], each["bus"], "0" * 32, 80 << 30, 9, 0, 132) for each in gpus)
    snapshot = Snapshot(driver=Driver(devices=cuda), nvml=NvmlAnswers(devices=nvml), environment={"PATH": "x" * 4000})
    ended = [HARDWARE, KernelLogRead(lines=["NVRM: Xid (PCI:0000:12:00): 79, pid=7, GPU has fallen off"])]
    return lines(
        "supervisor",
        [
            RunStarted(oomph="0.1.0"),
            MachineSeen(snapshot=snapshot.as_document()),
            AttemptStarted(python="/env/bin/python", command=["train.py", "--epochs", "9"], host=host, gpus=gpus),
            AttemptEnded(returncode=-6 if is_bad else 0, seconds=3600.0, steps=9000, saved=9000),
            *(ended if is_bad else ()),
            Decided(action="finish", exit_code=0, conditions={"gpus": [each["uuid"] for each in gpus]}, ledger={}),
            RunEnded(exit_code=0),
        ],
    )


def scripts() -> str:
    """The journal of the script: a checkpoint every minute of two hours, about 35 kB."""
    saved = [
        CheckpointSaved(name=f"step-{n}-fit0-epoch1-step{n}", steps=n, bytes=n, fit=0, epoch=1, step=n)
        for n in range(120)
    ]
    return lines("script", [ProcessStarted(pid=7), GuardInstalled(keras="3.15"), FitStarted(site="train.py:9"), *saved])


def write_fleet(folder: Path) -> None:
    """Write 10,000 runs on 64 hosts, one of which loses a GPU in a fifth of its runs."""
    dice, script = random.Random(1), scripts()
    record = RunRecord(("train.py", "--epochs", "9"), "/env/bin/python", str(folder), "", status="finished", attempts=1)
    journals = {(f"node-{n:02}", bad): supervisors(f"node-{n:02}", bad) for n in range(HOSTS) for bad in (True, False)}
    for number in range(RUNS):
        host = f"node-{number % HOSTS:02}"
        run = folder / ".oomph" / "runs" / f"20261130-{number:06}-train"
        (run / "journal").mkdir(parents=True)
        (run / "run.json").write_text(record._replace(host=host).to_json())
        (run / "summary.json").write_text('{"schema": 1, "steps": 9000, "exactness": "exact"}')
        is_bad = dice.random() < (0.2 if host == BAD else 0.002)
        (run / "journal" / "1-0-supervisor.jsonl").write_text(journals[host, is_bad])
        (run / "journal" / "1-0-script.jsonl").write_text(script)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fleet")
    write_fleet(folder)
    return folder


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.parametrize(("options", "named"), [((), f"{BAD} stands out"), (("--json",), f'"gpu": "GPU-{BAD}-2"')])
def test_10_000_journals_are_compared_within_10_s_and_500_mb(fleet, options, named):
    """Times are CPU times, which other processes do not lengthen. Everything runs in one process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "oomph", "explain", str(fleet), *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=LIMIT, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert named in done.stdout
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime <= SECONDS
    assert after.ru_maxrss / 1024 <= MEGABYTES
