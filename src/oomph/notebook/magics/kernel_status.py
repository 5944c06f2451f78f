"""Describes a kernel's trainings and lists the cells that the kernel before it ran, from the journal."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from oomph.journal.events import CellStarted, CheckpointSaved, FitFinished, FitStarted, Interrupted, Resumed
from oomph.journal.journal import Event, by_attempt, facts, pairs, read_journal
from oomph.notebook.evidence.kernel_board import NO_CELL, read_state
from oomph.protocol.progress import Progress, read_progress
from oomph.script.session import Session
from oomph.terminal.amounts import as_duration, counted
from oomph.terminal.message import shown_line

_HEAD = 15


def status(session: Session) -> list[str]:
    """Return a few lines: run directory, attempt, fits, checkpoint."""
    if session.run_dir is None:
        return ["fits are guarded, but neither checkpointed nor resumed"]
    events = read_journal(session.run_dir)
    own = [event for event in events if event.attempt == session.handover.attempt]
    progress = read_progress(session.run_dir)
    if progress is not None and progress.attempt != session.handover.attempt:
        progress = None
    rows = [
        ("run directory", str(session.run_dir)),
        ("attempt", f"{session.handover.attempt} (process {session.pid})"),
        *fits(own, progress),
        ("checkpoint", _checkpoint(events, progress, time.time())),
    ]
    return [shown_line(f"{head:<{_HEAD}}{text}") for head, text in rows]


def fits(events: Sequence[Event], progress: Progress | None) -> Iterator[tuple[str, str]]:
    """Yield the name of each fit of an attempt, with its state in words."""
    states: dict[int, str] = {}
    sites: dict[int, str] = {}
    for event in events:
        match event.fact:
            case FitStarted(fit=int(number)) as started:
                sites[number], states[number] = started.site, _position(number, started.epochs, progress)
            case FitFinished(fit=int(number), steps=steps):
                states[number] = f"finished, {counted(steps, 'step')} in this kernel"
            case Interrupted(fit=int(number)):
                states[number] = "stopped by you"
            case Resumed(fit=int(number), kind="finished"):
                states[number] = "finished by an earlier kernel, whose result was returned"
    for number, state in sorted(states.items()):
        site = f" ({sites[number]})" if sites.get(number) else ""
        yield f"fit {number + 1}", f"{state}{site}"
    if not states:
        yield "fits", "none yet"


def _position(number: int, epochs: int | None, progress: Progress | None) -> str:
    if progress is None or progress.fit != number:
        return "has not finished a step"
    epoch = f"epoch {progress.epoch + 1}" + (f" of {epochs}" if epochs else "")
    return f"at the end of {epoch}" if progress.is_epoch_over else f"at {epoch}, step {progress.step + 1}"


def _checkpoint(events: Sequence[Event], progress: Progress | None, now: float) -> str:
    saved = pairs(events, CheckpointSaved)
    if not saved:
        return "none yet"
    event, checkpoint = saved[-1]
    ago = f"{checkpoint.name}, {as_duration(max(now - event.time, 0.0))} ago"
    return ago if progress is None else f"{ago}: {progress.saved} of {counted(progress.steps, 'step')} saved"


def cells_of_last_kernel(run_dir: Path, attempt: int | None) -> list[str]:
    """List the cells that the last kernel ran, one per line and in order, for the user to run again.

    Args:
        attempt: the attempt of this kernel, or None if it has not joined the run yet.
    """
    earlier = [event for event in read_journal(run_dir) if attempt is None or event.attempt < attempt]
    last = next((events for events in reversed(by_attempt(earlier)) if facts(events, CellStarted)), ())
    if not last:
        return [
            "there is no record of the cells of an earlier kernel: they are recorded from the first import of Keras on"
        ]
    state = read_state(run_dir, last[0].attempt)
    fatal = NO_CELL if state is None or state.ended else state.cell
    return [
        "the last kernel ran these cells, in this order; run them again to get its variables back:",
        *(_cell(cell, cell.cell == fatal) for cell in _each_once(facts(last, CellStarted))),
    ]


def _each_once(cells: Sequence[CellStarted]) -> Iterable[CellStarted]:
    """Keep one record per cell: disabling and enabling oomph again records the earlier cells anew."""
    return {cell.cell: cell for cell in cells}.values()


def _cell(cell: CellStarted, is_fatal: bool) -> str:
    ended = "  (the kernel died in this cell)" if is_fatal else ""
    return shown_line(f"  {f'[{cell.cell}]':>5}  {cell.line}{ended}")
