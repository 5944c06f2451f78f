"""Draws the workers of a run as rows of rich text, the worst first; those that do not fit share the last row. Pure."""

from __future__ import annotations

from rich.text import Text

from oomph.terminal.message import shown_line
from oomph.watch import wording
from oomph.watch.charts import Marks, bar
from oomph.watch.job import Job
from oomph.watch.strips import BAD, DOUBTFUL, NEUTRAL
from oomph.watch.workers import BAD_STATES, SILENT, STARTING, WorkerView, worst_first

_RANK, _STATE, _STEPS, _BAR, _OWN, _WAIT, _MEMORY = 6, 8, 11, 8, 9, 5, 9
"""The widths of the columns."""
_STYLES = {SILENT: DOUBTFUL, STARTING: DOUBTFUL}
_LEAST_HOST = 6
_MOST_LEAST = 8
"""The most rows that workers claim before other parts of the screen get any."""


def worker_rows(job: Job, width: int, marks: Marks, rows: int) -> list[Text]:
    """Return at most so many rows: who is late, the headings, and the workers."""
    late = [] if job.straggler is None else [Text(wording.straggler(job.straggler), style=DOUBTFUL)]
    head = [*late, Text(_cut(_HEAD, width), style="bold")][:rows]
    room, order = rows - len(head), worst_first(job.workers)
    shown = order if len(order) <= room else order[: max(room - 1, 0)]
    left = order[len(shown) :]
    summary = [Text(_cut(wording.other_workers(left), width), style="dim")] if left and room > 0 else []
    return [*head, *(_row(each, job, width, marks) for each in shown), *summary]


_HEAD = (
    f"{'worker':>{_RANK}} {'state':<{_STATE}} {'step':>{_STEPS}} {'own part of a step':>{_BAR + 1 + _OWN}}"
    f" {'input':>{_WAIT}} {'TF pool':>{_MEMORY}} {'RSS':>{_MEMORY}}  host"
)


def _row(worker: WorkerView, job: Job, width: int, marks: Marks) -> Text:
    row = Text(f"{worker.rank:>{_RANK}} ")
    row.append(f"{worker.state:<{_STATE}}", style=BAD if worker.state in BAD_STATES else _STYLES.get(worker.state, ""))
    row.append(f" {wording.UNKNOWN if worker.steps is None else format(worker.steps, ','):>{_STEPS}} ")
    is_late = job.straggler is not None and worker.rank in (job.straggler.rank, *job.straggler.also)
    row.append_text(_own(worker, marks, DOUBTFUL if is_late else NEUTRAL))
    row.append(f" {wording.percent(worker.input_wait_ratio):>{_WAIT}}")
    row.append(f" {wording.size(worker.pool_bytes):>{_MEMORY}} {wording.size(worker.resident_bytes):>{_MEMORY}}")
    if width - row.cell_len >= _LEAST_HOST + 2:
        row.append(f"  {shown_line(worker.host)}", style="dim")
    return row


def _own(worker: WorkerView, marks: Marks, style: str) -> Text:
    """Return a worker's own part of a step: a bar, and its time."""
    own, time = worker.own_seconds, worker.time
    if own is None or time is None or not time.step > 0:
        return Text(f"{'':{_BAR}} {wording.UNKNOWN:>{_OWN}}")
    full, rest = bar(own / time.step, _BAR, marks)
    return Text.assemble((full, style), (rest, "dim"), f" {wording.own_time(own):>{_OWN}}")


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


def least_rows(job: Job) -> int:
    """Return the rows that the workers need: the headings, those in trouble or late, and one for all others."""
    late = 0 if job.straggler is None else 2 + len(job.straggler.also)
    bad = sum(each.state in BAD_STATES for each in job.workers)
    return min(1 + late + bad + 2, 1 + len(job.workers) + (late > 0), _MOST_LEAST)
