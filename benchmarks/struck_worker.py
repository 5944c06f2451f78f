"""A worker of `worker_faults.py`: takes steps with the others, saves as a fit does, and is struck at a random moment.

`struck_worker.py FAULTS SEED`: the attempts before the last one have a fault each.
"""

from __future__ import annotations

import json
import mmap
import os
import random
import signal
import struct
import sys
import time

from oomph.checkpoint.container import CheckpointWriter, Position
from oomph.checkpoint.manifest import Meta, said
from oomph.checkpoint.store import CheckpointStore
from oomph.protocol.border_boards import MappedBorderBoard
from oomph.protocol.borders import CommonBorders
from oomph.protocol.handover import Handover
from oomph.protocol.progress import ProgressBoard

HOW = ("SIGKILL", "SIGSEGV", "SIGABRT", "SIGBUS", "SIGSTOP", "lost")
"""How a worker may be struck. "lost" is the error of a worker that has lost the connection to another."""
EVERY, LAST = 20, 30
"""The steps between two checkpoints, and those of the last attempt."""
_SLOT = struct.Struct("=dq")


def part(steps: int, rank: int) -> float:
    """Return what a worker adds to the sum of a step."""
    return 1 / (1 + steps + rank)


class Gang:
    """All workers of an attempt, as one of them knows them."""

    def __init__(self, handover: Handover, faults: int, seed: str) -> None:
        self.attempt = handover.attempt
        cluster = json.loads(os.environ["TF_CONFIG"])
        self.rank, self.workers = cluster["task"]["index"], len(cluster["cluster"]["worker"])
        self.is_last = self.attempt > faults
        draw = random.Random(f"{seed}-{self.attempt}")
        self._struck, self._how = draw.randrange(self.workers), draw.choice(HOW)
        self._seconds, self._due = draw.uniform(0.0, 0.5), 0.0
        fd = os.open(f"sums-{self.attempt}", os.O_RDWR | os.O_CREAT)
        os.posix_fallocate(fd, 0, 2 * self.workers * _SLOT.size)
        self._sums = mmap.mmap(fd, 2 * self.workers * _SLOT.size)

    def gather(self) -> None:
        """Wait for the other workers to start."""
        open(f"started-{self.attempt}-{self.rank}", "w").close()
        while not all(os.path.exists(f"started-{self.attempt}-{each}") for each in range(self.workers)):
            time.sleep(0.005)
        self._due = time.monotonic() + self._seconds

    def sum(self, steps: int, number: float) -> float:
        """Return the sum of the numbers of all workers. Two sets of slots suffice: nobody is two steps ahead."""
        places = [(self.workers * (steps % 2) + each) * _SLOT.size for each in range(self.workers)]
        _SLOT.pack_into(self._sums, places[self.rank], number, steps + 1)
        while any(_SLOT.unpack_from(self._sums, place)[1] != steps + 1 for place in places):
            self.wait()
        return sum(_SLOT.unpack_from(self._sums, place)[0] for place in places)

    def wait(self) -> None:
        """Wait for a moment, and be struck if it is time."""
        time.sleep(0.0005)
        if self.is_last or time.monotonic() < self._due:
            return
        is_struck = self.rank == self._struck
        if is_struck and self._how != "lost":
            self._record()
            os.kill(os.getpid(), getattr(signal, self._how))
            time.sleep(600)
        if is_struck or (self._how == "SIGSTOP" and self.rank == (self._struck + 1) % self.workers):
            time.sleep(0.1)
            self._record()
            print("Collective ops is aborted by: Socket closed", file=sys.stderr, flush=True)
            os._exit(1)

    def _record(self) -> None:
        with open(f"at-{self.attempt}", "w") as file:
            file.write(f"{time.time()} {self._struck} {self._how}")


def slowly(writer: CheckpointWriter) -> None:
    """Write nothing, in a time of this worker's own."""
    time.sleep(random.uniform(0, 0.01))


def main() -> None:
    """Take steps until struck, or until the last attempt is over."""
    if random.random() < 0.5:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    handover = Handover.read()
    assert handover is not None
    assert handover.path is not None
    gang = Gang(handover, int(sys.argv[1]), sys.argv[2])
    store = CheckpointStore(handover.path / "checkpoints")
    store.open()
    found = store.latest_step()
    steps = 0 if found is None else found.position.steps
    weight = 0.0 if found is None else said(found.meta.logs)["weight"]
    first = handover.path if gang.rank == 0 else handover.path.parent.parent
    borders = CommonBorders(MappedBorderBoard(first, gang.attempt, gang.rank, gang.workers), gang.rank)
    borders.resumed(steps)
    board, begin, saved = ProgressBoard(handover.path, gang.attempt), steps, steps
    with open(f"begun-{gang.attempt}-{gang.rank}", "w") as file:
        file.write(str(begin))
    gang.gather()
    while not (gang.is_last and steps == begin + LAST):
        borders.arrive(steps, 1, lambda ahead, _: steps + ahead - saved >= EVERY, 0)  # noqa: B023
        if borders.is_due:
            saved, store.common = steps, borders.common
            store.draft_step(Position(0, 0, steps, steps)).complete(Meta(logs={"weight": weight}), slowly)
            borders.saved(steps)
        weight = 0.9 * weight + gang.sum(steps, part(steps, gang.rank))
        steps += 1
        board.write(fit=0, epoch=0, step=steps, steps=steps, saved=saved)
        gang.wait()
    with open(f"weight-{gang.rank}", "w") as file:
        file.write(f"{steps} {weight!r}")


if __name__ == "__main__":
    main()
