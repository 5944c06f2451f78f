"""The report in other formats: Markdown for an issue or a chat, JSON for programs, CSV with every sample."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Any

from oomph.explain import render
from oomph.monitor.metrics import of_scope
from oomph.monitor.sample import Sample
from oomph.monitor.store import read
from oomph.page.axis import in_local_time
from oomph.report import charts, workers
from oomph.report.environment import environment_of
from oomph.report.incidents import ReportedIncident, reported
from oomph.report.processes import Listing, listing_of
from oomph.report.profiles import ON_A_LINE_OF_TIME, OPERATION_HEADS, Profiles, as_documents, operations_of, rows_of
from oomph.report.recording import Recording, account_of, micro_batches_of, why_no_charts
from oomph.report.timeline import in_words
from oomph.report.workers import RecordedWorkers
from oomph.run.report.summary import result_in_words
from oomph.terminal.message import shown, shown_line

SCHEMA = 1


def as_markdown(recording: Recording) -> str:
    """Return the report as Markdown, with the figures of each chart in a table."""
    return shown("\n".join(_markdown(recording))) + "\n"


def _markdown(recording: Recording) -> Iterator[str]:
    yield f"# {_text(recording.title)}\n"
    yield f"**{_text(recording.outcome)}**\n"
    result = result_in_words(recording.summary)
    if result:
        yield f"{_text(result)}\n"
    yield from (f"{_text(text)}\n" for text in recording.missing)
    yield from _table(("", ""), account_of(recording))
    if recording.attempts:
        yield "\n## Attempts\n"
        yield from (f"{each.number}. {_text(in_words(each, recording))}" for each in recording.attempts)
    drawn = charts.charts_of(recording.curves)
    yield "\n## Over time\n"
    if not drawn:
        yield why_no_charts(recording)
    else:
        rows = [(f"{chart.title}: {row[0]}", *row[1:]) for chart in drawn for row in charts.as_rows(chart)]
        yield from _table(("", "smallest", "mean", "largest", "last"), rows)
    yield from _workers(recording.workers)
    yield from _profiles(recording.profiles)
    told = reported(recording)
    if told:
        yield "\n## Incidents"
        yield from (line for each in told for line in _incident(each))
    if recording.story.findings:
        yield "\n## Found by the monitor\n"
        yield from (f"- {_text(f'{each.fault}, {each.severity}: {each.message}')}" for each in recording.story.findings)
    yield "\n## Environment\n"
    yield from _table(("", ""), environment_of(recording))


def _workers(found: RecordedWorkers) -> Iterator[str]:
    if found.workers:
        yield "\n## Workers\n"
        yield from (f"{_text(text)}\n" for text in workers.sentences(found))
        yield from _table(workers.HEADS, [*workers.rows(found)])


def _profiles(profiles: Profiles) -> Iterator[str]:
    for each in profiles.taken:
        yield f"\n## Profile of {_text(each.title)}\n"
        yield from (f"- {heading}: {_text(text)}" for heading, text in rows_of(each))
        if each.figures is not None:
            yield ""
            yield from _table(OPERATION_HEADS, operations_of(each.figures))
    if profiles.opens:
        yield f"\n{ON_A_LINE_OF_TIME}: {_text(profiles.opens)}"
    if profiles.missing:
        yield "\n## Not in the profile\n"
        yield from (f"- {_text(text)}" for text in profiles.missing)


def _incident(each: ReportedIncident) -> Iterator[str]:
    code = f" ({each.code})" if each.code else ""
    yield f"\n### {each.number}. {_text(each.fault)}{code}\n"
    yield from (f"- {head}: {_text(text)}" for head, text in each.rows())
    yield from (f"- what you can do: {_text(text)}" for text in each.remedies)


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"| {' | '.join('---' for _ in head)} |"
    yield from (f"| {' | '.join(map(_text, row))} |" for row in rows)


def _text(text: str) -> str:
    """Clean a text for one line of Markdown, in which nothing of it is markup."""
    line = shown_line(text)
    return "".join(f"\\{letter}" if letter in "\\`*_[]<>|#" else letter for letter in line)


def as_document(recording: Recording) -> dict[str, Any]:
    """Return the report as JSON. Its structure is part of the public interface."""
    curves, drawn = recording.curves, charts.charts_of(recording.curves)
    return {
        "schema": SCHEMA,
        "run": str(recording.path),
        "command": None if recording.record is None else list(recording.record.command),
        "running": recording.is_going_on,
        "missing": "; ".join(recording.missing) or None,
        "begin": recording.begin,
        "end": recording.end,
        "summary": recording.summary.as_document(),
        "steps_kept": recording.kept_steps,
        "attempts": [
            {
                "attempt": each.number,
                "begin": each.begin,
                "end": each.end,
                "returncode": each.returncode,
                "steps": each.steps,
                "saved": each.saved,
                "resumed_at": each.resumed_at,
            }
            for each in recording.attempts
        ],
        "micro_batches": [{"time": at, "size": size} for at, size in micro_batches_of(recording)],
        "incidents": [_entry(each) for each in reported(recording)],
        "profiles": as_documents(recording.profiles),
        "workers": workers.as_documents(recording.workers),
        "findings": recording.story.as_document()["findings"],
        "diagnoses": render.as_document(recording.diagnoses)["diagnoses"],
        "environment": dict(environment_of(recording)),
        "samples": curves.samples,
        "charts": [
            {
                "title": chart.title,
                "unit": chart.unit.value,
                "curves": [{"name": each.name, "limit": each.is_limit, "values": each.values} for each in chart.curves],
            }
            for chart in drawn
        ],
        "times": curves.times,
    }


def _entry(each: ReportedIncident) -> dict[str, Any]:
    return {
        "fault": each.fault,
        "code": each.code,
        "attempt": each.attempt,
        "time": each.time,
        "place": each.place,
        "evidence": each.evidence,
        "decision": each.decision,
        "why": each.why,
        "cost": each.cost,
        "remedies": each.remedies,
    }


_COLUMNS = {scope: [metric.key for metric in of_scope(scope)] for scope in ("host", "process", "training")}
_OF_GPU = [metric.key for metric in of_scope("gpu")]


def csv_lines(recording: Recording) -> Iterator[str]:
    """Yield every sample of a run as a line of CSV, after a line with the names of the columns."""
    gpus, children = range(max(recording.curves.gpus, default=-1) + 1), recording.curves.children
    named = [f"{scope}.{key}" for scope, keys in _COLUMNS.items() for key in keys]
    processes = [*Listing(0, {}).by_curve(children)] if children else []
    yield _line(["time", "clock", *named, *processes, *(f"gpu{place}.{key}" for place in gpus for key in _OF_GPU)])
    for sample in read(recording.path):
        yield _line(
            [*_plain_columns(sample), *_columns_of_processes(sample, children), *_columns_of_gpus(sample, gpus)]
        )


def _plain_columns(sample: Sample) -> Iterator[object]:
    yield from (sample.time, in_local_time(sample.time, "%Y-%m-%dT%H:%M:%S%z"))
    for values, keys in ((sample.host, "host"), (sample.process, "process"), (sample.training, "training")):
        yield from (values.get(key, "") for key in _COLUMNS[keys])


def _columns_of_processes(sample: Sample, children: Sequence[str]) -> Iterator[object]:
    """Yield the memory of each process by name, or nothing but empty columns between two lists of them."""
    if children:
        each = [(process.pid, process.memory_bytes, process.name, process.is_script) for process in sample.processes]
        values = listing_of(each).by_curve(children).values()
        yield from values if each else ("" for _ in values)


def _columns_of_gpus(sample: Sample, gpus: Sequence[int]) -> Iterator[object]:
    known = {gpu.index: gpu.values for gpu in sample.gpus}
    return (known.get(place, {}).get(key, "") for place in gpus for key in _OF_GPU)


def _line(row: list[object]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(row)
    return text.getvalue()
