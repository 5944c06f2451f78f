"""Draws the runs as rows of rich text: a list of all, and the chosen one with its progress. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from oomph.monitor.finding import SEVERITIES
from oomph.terminal.amounts import as_duration
from oomph.terminal.message import shown_line
from oomph.watch import wording
from oomph.watch.charts import Marks, bar
from oomph.watch.job import Job
from oomph.watch.strips import BAD, DOUBTFUL, NEUTRAL

STYLES = {"critical": BAD, "warning": DOUBTFUL, "notice": NEUTRAL}
"""The style of each severity."""
_STATES = {"running": "green", "monitored": "green", "finished": "green", "failed": BAD, "gave-up": BAD}
_LEAST_COMMAND = 12
_WITH_BARS, _LEAST_BAR, _LONGEST_BAR = 70, 6, 24
"""The screen width from which progress has bars, and the least and greatest length of a bar."""


def list_of(jobs: Sequence[Job], chosen: int, width: int, marks: Marks) -> list[Text]:
    """Return one row for each run: its number, command, state, position and worst current finding.

    A single run needs no number, and the row below it has its position.
    """
    commands = [shown_line(job.command) for job in jobs]
    cells = [_cells(job) for job in jobs]
    widths = [max(len(text) for text, _ in column) for column in zip(*cells, strict=True)]
    digits, is_alone = len(str(len(jobs))), len(jobs) == 1
    before = 0 if is_alone else digits + 2
    for column in (_POSITION, _ATTEMPT):  # a narrow screen lacks these columns
        if (is_alone and column == _POSITION) or _room(width - before, widths) < _LEAST_COMMAND:
            widths[column] = 0
    longest = min(max(_room(width - before, widths), _LEAST_COMMAND), max(map(len, commands)))
    rows = []
    for place, (command, row) in enumerate(zip(commands, cells, strict=True)):
        number = "" if is_alone else f"{marks.chosen if place == chosen else ' '}{place + 1:>{digits}} "
        text = Text(f"{number}{command}")
        text.truncate(before + longest, overflow="ellipsis", pad=True)
        for (cell, style), column in zip(row, widths, strict=True):
            text.append(f"  {cell:<{column}}" if column else "", style=style)
        if place == chosen:
            text.stylize("bold")
        rows.append(text)
    return rows


_ATTEMPT, _POSITION = 1, 2


def _cells(job: Job) -> tuple[tuple[str, str], ...]:
    """Return the text and the style of each column but the first."""
    attempt = f"attempt {job.attempt}" if job.attempt > 1 else ""
    worst = _worst(job)
    state = shown_line(job.state), _STATES.get(job.state, "")
    return state, (attempt, ""), (wording.position_in_words(job), ""), (worst, STYLES.get(worst, ""))


def _room(width: int, widths: Sequence[int]) -> int:
    """Return the space for a command."""
    return width - sum(each + 2 for each in widths if each)


def _worst(job: Job) -> str:
    """Return the severity of the worst finding that is present, or an empty string."""
    return max((each.severity for each in job.incidents if each.is_present), key=SEVERITIES.index, default="")


def progress_rows(job: Job, width: int, marks: Marks) -> list[Text]:
    """Return where a run is, with bars for the epochs and the steps if there is room, and how it computes."""
    details = [*([] if job.eta_seconds is None else [f"ETA {as_duration(job.eta_seconds)}"]), *wording.details_of(job)]
    if width < _WITH_BARS or job.epoch is None or job.step is None:
        return _flowing([wording.position_in_words(job), *details], width)
    epoch = f"epoch {wording.position(job.epoch, job.epochs)} "
    step = f"step {wording.position(job.step, job.steps_per_epoch)} "
    behind = details
    while behind and _length(epoch, step, behind, width) < _LEAST_BAR:
        behind = behind[:-1]
    length = min(_length(epoch, step, behind, width), _LONGEST_BAR)
    row = Text(epoch).append_text(_progress(_epochs_done(job), job.epochs, length, marks))
    row.append(step).append_text(_progress(job.step, job.steps_per_epoch, length, marks))
    return [row.append("  ".join(behind)), *_flowing(details[len(behind) :], width)]


def _length(epoch: str, step: str, behind: Sequence[str], width: int) -> int:
    """Return the length of each of two bars in a row with these texts."""
    return (width - len(epoch) - len(step) - len("  ".join(behind)) - 4) // 2


def _progress(done: float, of: int | None, length: int, marks: Marks) -> Text:
    if of is None or not 0 <= done <= of or not of:
        return Text(" ")
    full, rest = bar(done / of, max(length, 0), marks)
    return Text.assemble((full, NEUTRAL), (rest, "dim"), "  ")


def _epochs_done(job: Job) -> float:
    """Return how many epochs are done, with the part of the current one that is."""
    epoch, step = job.epoch or 0, job.step or 0
    return epoch - 1 + (min(step / job.steps_per_epoch, 1.0) if job.steps_per_epoch else 0.0)


def in_words(job: Job, width: int) -> list[Text]:
    """Return the figures of a run without curves, for a screen that has no room for them."""
    return _flowing(wording.figures_of(job), width)


def _flowing(parts: Sequence[str], width: int) -> list[Text]:
    return [Text(line) for line in wording.flowing(parts, width)]
