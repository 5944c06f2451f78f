"""Reads what one process of the script has recorded in its run directory during one attempt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from oomph.checkpoint.store import newest_number, steps_saved_after
from oomph.files.opening import is_own_folder
from oomph.journal.events import FitStarted, LoopSeen
from oomph.journal.journal import Event, facts, read_journal, refuse_later
from oomph.monitor.board import BOARD, BoardReader
from oomph.protocol import creations
from oomph.protocol.progress import Progress, read_progress


def prepare(run_dir: Path, attempt: int) -> None:
    """Prepare a run directory for an attempt that is about to start: nothing in it may claim to come from it."""
    try:
        (run_dir / BOARD).unlink(missing_ok=True)
    except OSError:
        pass  # a folder that cannot be written to has no board either
    refuse_later(run_dir, attempt)
    creations.refuse_later(run_dir, attempt)


class ScriptRecord:
    """The events, the progress and the checkpoints of one process of the script, as far as one attempt goes.

    Args:
        run_dir: the run directory of the process, or None if there is none.
        attempt: the number of the attempt.
        newest_checkpoint: the number of the newest checkpoint when the attempt started, or None if it starts now.
    """

    def __init__(self, run_dir: Path | None, attempt: int, newest_checkpoint: int | None = None) -> None:
        self._run_dir, self._attempt = run_dir, attempt
        self.newest_checkpoint = self._newest() if newest_checkpoint is None else newest_checkpoint

    def progress(self) -> Progress | None:
        """Return the progress of the attempt, or None if it has not committed a step."""
        progress = None if self._run_dir is None else read_progress(self._run_dir)
        return self._with_saved(progress) if progress is not None and progress.attempt == self._attempt else None

    def events(self) -> list[Event]:
        """Return the events that the script's processes wrote."""
        if self._run_dir is None:
            return []
        return [event for event in read_journal(self._run_dir, self._attempt) if event.role != "supervisor"]

    def loops(self) -> list[tuple[str, int, int]]:
        """Return the file and the line numbers of each training loop that the script has reported."""
        events = self.events()
        seen = [fit.loops or () for fit in facts(events, FitStarted)] + [loop.loops for loop in facts(events, LoopSeen)]
        return [(str(file), int(first), int(final)) for loops in seen for file, first, final in loops]

    def measured(self) -> dict[str, Any]:
        """Return what the script measured itself: the share of step time spent waiting for batches, and peak memory."""
        measured, _ = ({}, ()) if self._run_dir is None else BoardReader(self._run_dir).read()
        seconds, waited = measured.get("step_seconds_total"), measured.get("input_wait_seconds_total")
        peak = measured.get("allocator_peak_bytes") if "allocator_limit_bytes" in measured else None
        return {
            "input_wait": round(min(1.0, waited / seconds), 4) if seconds and waited is not None else None,
            "device_peak_bytes": None if peak is None else int(peak),
        }

    def _with_saved(self, progress: Progress) -> Progress:
        """Include a complete checkpoint that the progress lacks, because the process was killed before recording it."""
        found = self._checkpoints()
        if found is None:
            return progress
        saved = steps_saved_after(found, self.newest_checkpoint)
        return progress._replace(saved=saved) if progress.saved < saved <= progress.steps else progress

    def _newest(self) -> int:
        found = self._checkpoints()
        return 0 if found is None else newest_number(found)

    def _checkpoints(self) -> Path | None:
        """Return the folder of the checkpoints, or None if there is none or it is not the run's own."""
        there = self._run_dir is not None and is_own_folder(self._run_dir, "checkpoints")
        return self._run_dir / "checkpoints" if self._run_dir is not None and there else None
