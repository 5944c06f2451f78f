"""Makes what workers record of their pace, through the real writer, with clocks as given."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from oomph.files.oomph_folder import folder_of
from oomph.files.opening import make_own_folder
from oomph.monitor.pace import PaceBoard, PaceReading
from oomph.process.process_identity import ProcessIdentity

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


def record(run: Path, rank: int, found: Iterator[PaceReading], owner: ProcessIdentity | None = None) -> None:
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
