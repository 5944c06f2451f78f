"""Measures what copying a run to its store costs: `python benchmarks/store_cost.py [--megabytes 256] [URL]`.

Without a URL, the store is a folder. Prints the processor time of the copying process for each GiB of checkpoints, and
for a minute in which nothing changes but the journal.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

from oomph.checkpoint.container import Position
from oomph.checkpoint.manifest import Meta
from oomph.checkpoint.store import CheckpointStore
from oomph.process.process_identity import ProcessIdentity
from oomph.run.directory.run_directory import RunDirectory, RunRecord
from oomph.run.store.claims import claim_after, newest_claim
from oomph.run.store.copying import Copying
from oomph.run.store.object_store import ObjectStore

CHECKPOINTS = 4
LOOKS, ROUNDS = 30, 2
"""How often the process looks for a checkpoint in a minute, and how often it copies other files."""


def main() -> None:
    """Measure, and print both figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("url", nargs="?")
    parser.add_argument("--megabytes", type=int, default=256)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = RunDirectory.create(Path(folder) / "run", RunRecord(("train.py",), "python", "/", ""))
        objects = ObjectStore(args.url or f"file://{folder}/store")
        claim = claim_after(objects, newest_claim(objects), ProcessIdentity.here())
        copying = Copying(objects, run.path, claim, lambda: None)
        copying.round()
        cpu, seconds = _copy(run, copying, args.megabytes)
        gib = CHECKPOINTS * args.megabytes / 1024
        print(f"{cpu / gib:.2f} s of processor time and {seconds / gib:.2f} s for each GiB of checkpoints")
        print(f"{1000 * _idle(run, copying):.0f} ms of processor time a minute without a checkpoint")
        run.close()


def _copy(run: RunDirectory, copying: Copying, megabytes: int) -> tuple[float, float]:
    store = CheckpointStore(run.path / "checkpoints")
    store.open()
    cpu = seconds = 0.0
    for step in range(1, CHECKPOINTS + 1):
        data = os.urandom(megabytes << 20)
        draft = store.draft_step(Position(0, 0, step, step))
        draft.complete(Meta(), lambda to, data=data: to.add("w", "uint8", (len(data),), data))
        began, started = time.process_time(), time.monotonic()
        copying.round()
        cpu, seconds = cpu + time.process_time() - began, seconds + time.monotonic() - started
    return cpu, seconds


def _idle(run: RunDirectory, copying: Copying) -> float:
    began = time.process_time()
    for number in range(ROUNDS):
        for _ in range(LOOKS // ROUNDS):
            copying.has_new_checkpoint()
        journal = run.path / "journal" / "1-0-supervisor.jsonl"
        journal.parent.mkdir(exist_ok=True)
        with open(journal, "a") as file:
            file.write(f"{number}\n")
        copying.round()
    return time.process_time() - began


if __name__ == "__main__":
    main()
