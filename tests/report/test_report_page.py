"""The page tells what happened, in full, links to what it names, and lets no text from a run become markup."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from recorded_runs import BEGIN, create, sample, samples, survived, write

from oomph.journal.events import (
    AttemptEnded,
    AttemptStarted,
    CellStarted,
    CheckpointSkipped,
    Decided,
    Diagnosed,
    FindingMade,
    FitFinished,
    FitStarted,
    Resumed,
    RunEnded,
    RunStarted,
    UncaughtException,
)
from oomph.report import comparison
from oomph.report.html import as_page
from oomph.report.recording import read_recording

HOSTILE = "</script></style><script>alert(1)</script><img src=x onerror=alert(2)>\x1b[31m\u202e&amp;\"'"
VOID = ("meta", "link", "img", "br", "hr", "input", "circle", "line", "rect", "path", "polygon", "polyline")


class Outline(HTMLParser):
    """Collects ids, links, tags and texts, and checks that elements are closed in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: list[str] = []
        self.scripts: list[str] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(page)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.append(tag)
        self.ids += [given["id"] or ""] if "id" in given else []
        self.links += [given["href"] or ""] if "href" in given else []
        assert not any(name.startswith("on") for name in given), given
        if tag not in ("meta", "link", "img", "br"):
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open[-1:] == ["script"]:
            self.scripts.append(data)
        elif self._open[-1:] != ["style"]:
            self.text += data


def page_of(run: Path) -> str:
    return as_page(read_recording(run))


@pytest.fixture(name="page")
def _page(tmp_path: Path) -> str:
    return page_of(survived(tmp_path / "run"))


def test_page_tells_the_outcome_the_label_the_cost_and_what_was_saved(page):
    text = Outline(page).text
    assert "finished after 300 steps in 2 attempts" in text
    assert "approximate" not in text
    assert "verified: the repeated steps match the original ones" in text
    assert "micro-batches of 1024, the same global batch" in text
    assert "20 of 300 steps repeated" in text
    assert "100 steps did not have to be trained again after a restart" in text


def section(page: str, name: str) -> str:
    """Return a section of the page."""
    found = re.search(f'<section id="{name}".*?</section>', page, re.DOTALL)
    assert found is not None
    return found[0]


def test_head_leads_to_whatever_happened_or_was_found_and_to_the_parts_of_the_page(page):
    head = Outline(section(page, "head"))
    assert "what was foundslow-input, training: waits for data" in head.text
    assert "Incidents (2)" in head.text
    assert "Findings (1)" in head.text
    assert head.links == [
        "#attempts", "#time", "#incidents", "#findings", "#environment", "#faults", "#incident-1", "#incident-2",
        "#finding-1",
    ]  # fmt: skip


def test_head_tells_what_happened_before_what_to_do_next_time(page):
    text = Outline(section(page, "head")).text
    assert text.index("what happened") < text.index("what it cost") < text.index("The next run can start with")


def test_head_names_a_few_incidents_and_findings_and_counts_the_others(tmp_path):
    run = create(tmp_path / "run", attempts=1)
    write(run, 1, "supervisor", [
        (0, AttemptStarted()),
        *((at, FindingMade(fault="memory-leak", code="OOM104", subject=f"GPU {at}", message="it grows"))
          for at in range(1, 13)),
    ])  # fmt: skip
    head = Outline(section(page_of(run), "head"))
    assert [link for link in head.links if "finding-" in link] == [f"#finding-{number}" for number in range(1, 6)]
    assert "… and 7 more" in head.text


def test_page_tells_each_incident_with_cause_evidence_decision_and_time(page):
    found = re.findall(r'<article id="incident-\d+".*?</article>', page, re.DOTALL)
    oom, killed = (Outline(each).text for each in found)
    assert oom.startswith("1. device-oom (OOM101)")
    assert "OOM when allocating tensor with shape[4096,4096]" in oom
    assert "trained the batch of 4096 as micro-batches of 1024" in oom
    assert "attempt 1, fit 1, epoch 1, step 4" in oom
    assert "Use a smaller batch" in oom
    assert "started attempt 2" in killed
    assert "20 steps since the last checkpoint" in killed
    assert re.search(r"when\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", killed)


def test_page_lists_attempts_findings_and_environment(page):
    text = Outline(page).text
    assert "1 min 40 s, from the beginning, 120 steps done, 100 saved, was killed by SIGKILL" in text
    assert "from step 100, 300 steps done, 300 saved, finished" in text
    assert "Micro-batches of 1,024 from" in text
    assert "slow-input (DAT610), warning" in text
    assert '<a href="#fault-DAT610">' in section(page, "findings")
    assert "oomph run train.py --epochs 3" in text
    assert "0: NVIDIA GeForce RTX 4090, 1: NVIDIA GeForce RTX 4090" in text


def test_every_link_of_the_page_leads_somewhere_in_it_and_ids_are_unique(page):
    outline = Outline(page)
    assert len(outline.ids) == len(set(outline.ids))
    assert outline.links
    assert all(link.startswith("#") and link[1:] in outline.ids for link in outline.links), outline.links


def test_page_loads_nothing(page):
    assert not re.search(
        r'(?:src|href)="(?!#)|url\(|@import', re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    )
    assert "default-src 'none'" in page
    assert "connect-src" not in page


def test_charts_have_a_picture_a_table_and_the_same_data_for_the_script(page):
    outline = Outline(page)
    charts = [each for each in outline.ids if each.startswith("chart-")]
    assert charts == [f"chart-{name}" for name in (
        "pool", "gpu-memory", "gpu-utilization", "gpu-temperature", "host-memory",
        "processes", "step-time", "input-wait", "speed", "loss",
    )]  # fmt: skip
    assert outline.tags.count("svg") == len(charts)
    data = json.loads(outline.scripts[0])
    assert [f"chart-{each['key']}" for each in data["charts"]] == charts
    assert len(data["times"]) == 300
    assert all(len(curve["values"]) == 300 for chart in data["charts"] for curve in chart["curves"])
    assert [(each["kind"], each["label"]) for each in data["marks"]] == [("restart", ""), ("", "1"), ("", "2")]
    assert [(each["begin"] - BEGIN, each["end"] - BEGIN) for each in data["spans"]] == [(150.0, 190.0)]


def test_hostile_texts_stay_texts_in_every_place(tmp_path):
    run = survived(
        tmp_path / "run", message=f"{HOSTILE} OOM when allocating tensor with shape[2]", script=f"{HOSTILE}.py"
    )
    write(run, 3, "script", [
        (310, FitStarted(fit=1, key="g", site=f"{HOSTILE}:1", guard=HOSTILE)),
        (311, UncaughtException(type=HOSTILE, message=HOSTILE)),
    ])  # fmt: skip
    for page in (page_of(run), comparison.as_page([read_recording(run), read_recording(run)])):
        outline = Outline(page)
        assert "img" not in outline.tags
        assert outline.tags.count("script") == 3, "the data, uPlot and the page's own"
        assert not {"\x1b", "\u202e"} & set(page)
        assert "<script>alert" in outline.text
        json.loads(outline.scripts[0])


def test_secrets_are_not_shown(tmp_path, monkeypatch):
    secret = "hf_" + "a1B2" * 9
    run = survived(
        tmp_path / "run", message=f"OOM when allocating tensor, HF_TOKEN={secret}", script=f"train.py?key={secret}"
    )
    page = page_of(run)
    assert secret not in page
    assert secret[3:] not in page


def test_running_run_is_told_as_such(tmp_path):
    run = create(tmp_path / "run", status="running", attempts=1)
    write(run, 1, "supervisor", [(0, RunStarted(oomph="0.1.0")), (0, AttemptStarted())])
    sample(run, samples(5))
    recording = read_recording(run)
    assert not recording.is_going_on, "nobody holds its lock"
    assert "no fault found" in Outline(as_page(recording)).text


def test_samples_of_a_monitor_alone_have_a_page(tmp_path):
    folder = tmp_path / "monitored"
    (folder / "monitor").mkdir(parents=True)
    sample(folder, samples(20))
    outline = Outline(page_of(folder))
    assert "chart-loss" in outline.ids
    assert "interrupted" not in outline.text


def test_run_without_samples_has_a_page_without_charts_and_scripts(tmp_path):
    run = create(tmp_path / "run")
    write(run, 1, "supervisor", [(0, AttemptStarted()), (9, AttemptEnded(returncode=1, seconds=9.0))])
    outline = Outline(page_of(run))
    assert "script" not in outline.tags
    assert "ended with exit code 1" in outline.text


@pytest.mark.parametrize("after", [1e18, -BEGIN, 3e9, float("inf")])
def test_impossible_times_are_unknown_and_do_not_stretch_the_page(tmp_path, after):
    run = survived(tmp_path / "run")
    write(run, 3, "supervisor", [(after, AttemptStarted()), (after, AttemptEnded(returncode=1, seconds=after))])
    page = page_of(run)
    assert "2026-09-21" in Outline(page).text
    assert json.loads(Outline(page).scripts[0])["end"] - BEGIN == 300


def test_kernels_of_a_notebook_are_told_as_such(tmp_path):
    """Nobody sees the end of such a kernel: the next one writes it down, minutes later."""
    run = create(tmp_path / ".oomph" / "notebooks" / "lesson", script="lesson")
    write(run, 1, "supervisor", [
        (0, RunStarted()), (0, AttemptStarted()), (228, AttemptEnded(returncode=None, seconds=5.4, steps=60, saved=40)),
    ])  # fmt: skip
    write(run, 1, "script", [(1, CellStarted(cell=1)), (2, FitStarted(fit=0, key="f", site="cell [3]"))])
    write(run, 2, "supervisor", [
        (229, RunStarted()), (229, AttemptStarted()),
        (250, AttemptEnded(returncode=0, seconds=21.0, steps=90, saved=90)),
    ])  # fmt: skip
    write(run, 2, "script", [(230, CellStarted(cell=1)), (231, Resumed(fit=0, key="f", steps=40, kind="exact"))])
    text = Outline(page_of(run)).text
    assert "5 s, from the beginning, 60 steps done, 40 saved, nobody saw its end" in text
    assert "cells run again in another kernel once" in text
    assert "the kernel was gone, and nobody saw how it ended" in text
    assert "the next kernel went on as attempt 2" in text
    assert "notebooklesson" in text
    assert "no monitor samples a notebook's kernel" in text
    assert "oomph run" not in text


def test_ten_thousand_faults_are_cut_in_the_page_and_counted(tmp_path):
    run = create(tmp_path / "run", attempts=9)
    for attempt in range(1, 301):
        write(run, attempt, "supervisor", [
            (attempt * 10, AttemptStarted()), (attempt * 10 + 9, AttemptEnded(returncode=-11, seconds=9.0)),
        ])  # fmt: skip
        write(run, attempt, "script", [(attempt * 10 + 8, UncaughtException(type="ValueError", message="x"))])
    page = page_of(run)
    assert len(page) < 1_500_000
    assert "attempt 300" in page


def test_runs_are_compared_by_figures_and_on_one_axis(tmp_path):
    one, two = survived(tmp_path / "one"), survived(tmp_path / "two", script="other.py")
    outline = Outline(comparison.as_page([read_recording(one), read_recording(two)]))
    assert "2 runs side by side" in outline.text
    assert "onetwo" in outline.text, "the heads of the table"
    assert "found by the monitorslow-input 1×slow-input 1×" in re.sub(r"\n", "", outline.text)
    assert "train.py --epochs 3other.py --epochs 3" in outline.text
    data = json.loads(outline.scripts[0])
    assert data["elapsed"] is True
    assert data["begin"] == 0
    loss = next(each for each in data["charts"] if each["key"] == "loss")
    assert [curve["name"] for curve in loss["curves"]] == ["one", "two"]
    assert loss["curves"][0]["values"] == loss["curves"][1]["values"]


def test_comparison_lists_the_incidents_of_each_run_marks_them_and_links_to_their_faults(tmp_path):
    one, two = survived(tmp_path / "one"), create(tmp_path / "two")
    write(two, 1, "supervisor", [(0, AttemptStarted()), (9, AttemptEnded(returncode=0, seconds=9.0))])
    page = comparison.as_page([read_recording(one), read_recording(two)])
    outline = Outline(page)
    assert (
        "device-oom (OOM101), after 20 s, attempt 1: trained the batch of 4096 as micro-batches of 1024" in outline.text
    )
    assert "twonone" in outline.text.replace("\n", "")
    assert len(outline.ids) == len(set(outline.ids))
    assert {"#fault-OOM101", "#fault-CRS201"} <= set(outline.links)
    assert all(link[1:] in outline.ids for link in outline.links)
    marks = json.loads(outline.scripts[0])["marks"]
    assert [(each["at"], each["to"]) for each in marks] == [(20.0, "run-1-incident-1"), (100.0, "run-1-incident-2")]
    assert marks[0]["title"].startswith("one: device-oom: ")


def test_comparison_shows_one_limit_or_whose_each_is(tmp_path):
    def limits(*runs: Path) -> list[str]:
        page = comparison.as_page([read_recording(run) for run in runs])
        pool = json.loads(Outline(page).scripts[0])["charts"][0]
        return [curve["name"] for curve in pool["curves"] if curve["limit"]]

    one, two, other = survived(tmp_path / "one"), survived(tmp_path / "two"), create(tmp_path / "other")
    smaller = {"allocator_in_use_bytes": 1.0, "allocator_limit_bytes": 5.0}
    sample(other, (replace(each, training=smaller) for each in samples(20)))
    assert limits(one, two) == ["limit"]
    assert limits(one, two, other) == ["limit of one and two", "limit of other"]


def test_page_says_what_the_next_run_can_save(tmp_path):
    text = Outline(page_of(survived(tmp_path / "run"))).text
    assert (
        "The next run can start with the micro-batch that this one took 11 s to find: oomph run --micro-batch" in text
    )


def test_bars_of_the_attempts_lie_above_the_pictures_and_have_the_same_margins(page):
    left, right = (float(share) / 100 for share in re.findall(r"--still-(?:left|right):([\d.]+)%", page))
    grids = set(re.findall(r'<line class="grid" x1="([\d.]+)" x2="([\d.]+)"', page))
    assert len(grids) == 1, "all pictures begin and end at the same place"
    ((begin, end),) = grids
    assert float(begin) == pytest.approx(left * 720, abs=0.1)
    assert 720 - float(end) == pytest.approx(right * 720, abs=0.1)
    assert page.index('class="timeline"') < page.index('id="chart-pool"')


def test_bars_show_what_the_monitor_found_lead_to_it_and_explain_their_signs(page):
    found = re.search(r'<a class="finding warning" data-at="([\d.]+)" data-until="([\d.]+)".*?href="#(.*?)"', page)
    assert found is not None
    assert (float(found[1]) - BEGIN, float(found[2]) - BEGIN, found[3]) == (150.0, 190.0, "finding-1")
    legend = re.search(r'<ul class="legend">.*?</ul>', page, re.DOTALL)
    assert legend is not None
    assert Outline(legend[0]).text == (
        "attempt that did not finishattempt that finishedstart of an attemptfault, as numbered below"
        "change of the micro-batchwarning of the monitor"
    )


def test_each_kind_of_finding_has_a_row_with_its_name(tmp_path):
    run = survived(tmp_path / "run")
    write(run, 3, "supervisor", [
        (200, FindingMade(fault="memory-leak", subject="GPU 0", message="it grows", severity="notice")),
        (210, FindingMade(fault="memory-leak", subject="GPU 1", message="it grows", severity="notice")),
    ])  # fmt: skip
    tracks = re.findall(r'<div class="track findings">(.*?)</div>', page_of(run))
    assert [Outline(each).text for each in tracks] == ["slow-input", "memory-leakmemory-leak"]


def test_commands_are_not_broken_within_a_word(page):
    assert "<code><span>oomph</span> <span>run</span> <span>--micro-batch=1024</span>" in page


def test_result_with_nan_is_not_shown_as_a_good_one(tmp_path):
    run = create(tmp_path / "run", attempts=1)
    write(run, 1, "supervisor", [
        (0, AttemptStarted()), (9, AttemptEnded(returncode=0, seconds=9.0, steps=50, saved=50)),
        (9, RunEnded(exit_code=0)),
    ])  # fmt: skip
    write(run, 1, "script", [
        (1, FitStarted(fit=0, key="f", site="train.py:1", guard="exact")),
        (5, CheckpointSkipped(fit=0, epoch=1, step=2)),
        (8, FitFinished(fit=0, key="f", steps=50, reached=50, guard="exact", seconds=7.0)),
    ])  # fmt: skip
    assert '<p class="bad">not finite' in page_of(run)
    assert "not finite" in comparison.as_page([read_recording(run), read_recording(run)])


def test_incident_shows_the_evidence_of_its_own_attempt_and_remedies_are_told_once(tmp_path):
    run = create(tmp_path / "run", attempts=2)
    for attempt in (1, 2):
        begin = attempt * 100
        write(run, attempt, "supervisor", [
            (begin, AttemptStarted()), (begin + 50, AttemptEnded(returncode=1, seconds=50.0)),
            (begin + 50, Diagnosed(fault="device-oom", code="OOM101")),
            (begin + 50, Decided(action="restart", ending={"fault": "device-oom", "returncode": 1})),
        ])  # fmt: skip
        message = f"OOM when allocating tensor with shape[{attempt},4096]"
        write(run, attempt, "script", [(begin + 49, UncaughtException(type="ResourceExhaustedError", message=message))])
    first, second = re.findall(r'<article id="incident-\d+".*?</article>', page_of(run), re.DOTALL)
    assert "shape[1,4096]" in first
    assert "shape[2,4096]" in second
    assert "shape[1,4096]" not in second
    assert "<ol>" in first
    assert 'What you can do: as for <a href="#incident-1">' in second


def test_page_says_what_of_the_journal_is_missing(tmp_path):
    run = survived(tmp_path / "run")
    with (run / "journal" / "1-0-script.jsonl").open("a") as file:
        file.write("damaged\n")
    assert "1 line of the journal in" in Outline(page_of(run)).text
