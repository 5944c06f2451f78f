"""Several workers in the report: one lane each on one line of time, the late one named, clocks corrected, bounded."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest
from recorded_workers import BEGIN, several

from oomph import cli
from oomph.report.formats import as_document, as_markdown
from oomph.report.html import as_page
from oomph.report.recording import read_recording

HOSTILE = "\x1b[31m\u202e<script>alert(1)</script>&\"'"


def section(run: Path) -> str:
    """Return the section about the workers, or an empty text."""
    found = re.search(r'<section id="workers".*?</section>', as_page(read_recording(run)), re.DOTALL)
    return "" if found is None else found[0]


def test_run_of_one_worker_has_no_such_section(tmp_path):
    assert section(several(tmp_path / "run", 1)) == ""


@pytest.mark.parametrize("count", [2, 8, 64])
def test_each_worker_has_one_lane_and_the_late_one_is_named(tmp_path, count):
    found = section(several(tmp_path / "run", count, late={1: 0.29}))
    assert found.count('class="track lane') == count
    assert found.count('class="track lane late"') == 1
    assert re.search(r"Worker 1 was late by \d\d\.0 ms in every step of 300\.0 ms: its own part takes longer\.", found)
    assert '<div class="name"><span class="warn">late: </span>1</div>' in found


def test_healthy_workers_have_none_that_is_late(tmp_path):
    found = section(several(tmp_path / "run", 8))
    assert "late" not in found.replace("latest", "")


def test_more_workers_than_lanes_are_told_and_the_late_one_is_shown(tmp_path):
    found = section(several(tmp_path / "run", 100, late={99: 0.29}, seconds=60))
    assert found.count('class="track lane') == 64
    assert "The 64 slowest of them have a lane" in found
    assert '<span class="warn">late: </span>99' in found
    assert len(re.findall(r"<tr>", found)) == 101, "the table has all"


def test_hang_of_a_worker_is_marked_in_its_lane_and_leads_to_the_incident(tmp_path):
    page = as_page(read_recording(several(tmp_path / "run", 4, hung=2)))
    (mark,) = re.findall(r'<a class="fault"[^>]*aria-label="worker 2 hung in attempt 1 at train.py:42 in load"', page)
    (to,) = re.findall(r'href="#([^"]*)"', mark)
    assert f'id="{to}"' in page
    assert f'data-at="{BEGIN + 400:.2f}"' in mark


def test_lane_is_blank_while_no_steps_are_done(tmp_path):
    found = section(several(tmp_path / "run", 2, hung=1))
    strips = re.findall(r'<svg class="own".*?</svg>', found)
    assert len(strips) == 2
    for strip in strips:
        drawn = {
            column
            for begin, length in re.findall(r"M(\d+) \.5h(\d+)", strip)
            for column in range(int(begin), int(begin) + int(length))
        }
        assert drawn.isdisjoint(range(82, 87)), "the 40 s between two attempts, of 600 s in 120 columns"
        assert len(drawn) > 105


@pytest.mark.parametrize("hours", [1, -5])
def test_clock_of_another_host_that_is_wrong_is_corrected_and_told(tmp_path, hours):
    run = several(tmp_path / "run", 3, hosts={2: "node-2"}, clocks={2: 3600.0 * hours})
    found, recording = section(run), read_recording(run)
    how = "1 h ahead of" if hours > 0 else "5 h behind"
    assert f"The clock of worker 2 (node-2) is {how} that of worker 0, by which all times here are given." in found
    assert recording.end - recording.begin < 700
    first, other = (re.findall(r'<svg class="own".*?</svg>', found)[place] for place in (0, 2))
    paths = [re.findall(r' d="([^"]*)"', strip) for strip in (first, other)]
    assert paths[0] == paths[1]


def test_hostile_host_is_shown_as_text(tmp_path):
    run = several(tmp_path / "run", 3, late={2: 0.29}, hosts={2: HOSTILE})
    for text in (section(run), as_markdown(read_recording(run))):
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert "<script>alert" not in text


def test_markdown_and_json_have_them_as_well(tmp_path):
    recording = read_recording(several(tmp_path / "run", 3, late={2: 0.29}, hosts={2: "node-2"}))
    text = as_markdown(recording)
    assert "## Workers" in text
    assert "worker 2 (node-2) was late by 89.0 ms" in text.replace("\\", "")
    document = json.loads(json.dumps(as_document(recording)))["workers"]
    assert [each["rank"] for each in document] == [0, 1, 2]
    assert document[2]["late_seconds"] == pytest.approx(0.09, abs=0.002)
    assert document[0]["late_seconds"] is None


def test_damaged_folders_of_workers_do_not_stop_the_report(tmp_path):
    run = several(tmp_path / "run", 3, seconds=60)
    (run / "workers" / "1" / "pace").write_bytes(b"\xff" * 999)
    (run / "workers" / "99999").mkdir()
    (run / "workers" / "x").write_text("")
    assert section(run).count('class="track lane') == 2
    for each in ("workers/2/pace", "workers/1/pace"):
        (run / each).unlink()
    (run / "workers").chmod(0)
    try:
        assert cli.main(["report", str(run)]) == 0
    finally:
        (run / "workers").chmod(0o700)


@pytest.mark.slow
def test_day_of_64_workers_is_reported_within_the_bar_of_a_day(tmp_path):
    run = several(tmp_path / "run", 64, seconds=86_400, every=10, late={17: 0.29})
    begin = time.process_time()
    page = as_page(read_recording(run))
    seconds = time.process_time() - begin
    print(f"{seconds:.2f} s of CPU, {len(page) / 1e6:.2f} MB")
    assert seconds < 5
    assert len(page) < 1_500_000
