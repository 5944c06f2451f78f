"""Host memory is shown by process: the script, its largest children by name, and the rest."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from recorded_runs import BEGIN, GIB, create, sample, samples
from test_report_page import Outline, page_of

from oomph.monitor.sample import Sample, ScriptProcess
from oomph.monitor.store import TAIL
from oomph.report.charts import charts_of
from oomph.report.curves import read_curves
from oomph.report.formats import as_document, as_markdown, csv_lines
from oomph.report.recording import read_recording

SCRIPT = ScriptProcess(100, 3 * GIB, "python3", is_script=True)


def with_children(*children: ScriptProcess, seconds: int = 60, every: int = 10) -> Iterator[Sample]:
    """Samples in which the processes are listed every ten seconds, as the sampler does."""
    for number, each in enumerate(samples(seconds)):
        yield replace(each, processes=(SCRIPT, *children) if number % every == 0 else ())


def children(name: str, gib: float, count: int = 1) -> list[ScriptProcess]:
    return [ScriptProcess(200 + place, int(gib * GIB / count), name) for place in range(count)]


def recorded(tmp_path: Path, each: Iterator[Sample]) -> Path:
    run = create(tmp_path / "run")
    sample(run, each)
    return run


def curves_by_name(run: Path) -> dict[str, tuple[float | None, ...]]:
    chart = next(each for each in charts_of(read_curves(run)) if each.key == "processes")
    return {curve.name: curve.values for curve in chart.curves}


def test_script_its_children_by_name_and_the_rest_add_up(tmp_path):
    names = {"loader": 1.0, "encoder": 0.5, "writer": 0.25, "a": 0.2, "b": 0.1, "c": 0.06, "d": 0.04}
    each = [child for name, gib in names.items() for child in children(name, gib, count=2)]
    found = curves_by_name(recorded(tmp_path, with_children(*each)))
    assert [*found] == [
        "the script itself", *(f"children: {name}" for name in ("loader", "encoder", "writer", "a", "b")),
        "other children", "all of them",
    ]  # fmt: skip
    assert found["the script itself"] == (3 * GIB,) * 60, "a list holds until the next one"
    assert found["children: loader"] == (GIB,) * 60
    assert found["other children"][0] is not None
    assert abs(found["other children"][0] - 0.1 * GIB) < 10


def test_script_alone_has_one_curve(tmp_path):
    found = curves_by_name(recorded(tmp_path, samples(20)))
    assert [*found] == ["the script"]


def test_script_that_is_alone_again_after_its_children_have_ended_keeps_its_curve(tmp_path):
    run = create(tmp_path / "run")
    later = (replace(each, process={"resident_bytes": 5 * GIB}) for each in samples(60, begin=BEGIN + 30))
    sample(run, [*with_children(*children("loader", 1.0), seconds=30), *later])
    found = curves_by_name(run)
    assert found["the script itself"][29] == 3 * GIB
    assert found["the script itself"][-1] == 5 * GIB
    assert found["children: loader"][-1] is None


def test_many_short_lived_children_neither_explode_the_page_nor_hide_the_large_one(tmp_path):
    def every() -> Iterator[Sample]:
        for number, each in enumerate(samples(20_000)):
            short = children(f"job {number}", 0.01)
            listed = (SCRIPT, *short, *(children("trainer", 2.0) if number == 12_340 else ()))
            yield replace(each, processes=listed if number % 10 == 0 else ())

    run = recorded(tmp_path, every())
    found = curves_by_name(run)
    assert len(found) == 8
    assert max(value or 0 for value in found["children: trainer"]) == 2 * GIB
    assert max(value or 0 for value in found["other children"]) == int(0.01 * GIB)
    assert len(page_of(run)) < 1_500_000


def test_every_format_has_them(tmp_path):
    run = recorded(tmp_path, with_children(*children("loader", 1.0)))
    page, recording = page_of(run), read_recording(run)
    outline = Outline(page)
    assert "chart-processes" in outline.ids
    assert "the script itself from 3 GiB to 3 GiB, children: loader from 1 GiB to 1 GiB" in page, "as a picture"
    assert "Memory of the script's processes: children: loader | 1 GiB | 1 GiB" in as_markdown(recording)
    document = json.loads(json.dumps(as_document(recording)))
    chart = next(each for each in document["charts"] if each["title"] == "Memory of the script's processes")
    assert [each["name"] for each in chart["curves"]] == ["the script itself", "children: loader", "all of them"]
    rows = list(csv.DictReader(io.StringIO("".join(csv_lines(recording)))))
    assert [row["children.loader"] for row in rows[:2]] == [str(GIB), ""], "as the samples have it"
    assert rows[0]["process.script_bytes"] == str(3 * GIB)


def test_hostile_lists_of_processes_are_left_out_or_named_process(tmp_path):
    run = recorded(tmp_path, with_children(*children("loader", 1.0)))
    tail = run / TAIL
    lines = tail.read_text().splitlines()
    hostile = "</script><img src=x>\x1b[31m\u202e"
    for place, listed in enumerate((
        [[1, 5, hostile, 0]], {"a": 1}, [[1]], [[1, -5, "x", 0]], [[1, 1e300, "x", 0]], [[1, True, "x", 0]], "text", 7,
    )):  # fmt: skip
        row = json.loads(lines[place + 1])
        lines[place + 1] = json.dumps([*row[:5], {"processes": listed}])
    tail.write_text("\n".join(lines) + "\n")
    page = page_of(run)
    assert "img" not in Outline(page).tags
    assert not {"\x1b", "\u202e"} & set(page)
    assert "children: process" in page
    assert curves_by_name(run)["children: loader"][-1] == GIB
