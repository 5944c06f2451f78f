"""Markdown, JSON and CSV tell the same run as the page."""

from __future__ import annotations

import csv
import io
import json

import pytest
from recorded_runs import BEGIN, GIB, survived

from oomph.report.environment import _amount
from oomph.report.formats import as_document, as_markdown, csv_lines
from oomph.report.recording import read_recording


@pytest.fixture(name="recording")
def _recording(tmp_path):
    return read_recording(survived(tmp_path / "run"))


def test_markdown_has_the_outcome_incidents_and_figures(recording):
    text = as_markdown(recording)
    assert text.startswith("# train.py --epochs 3\n")
    assert "**finished after 300 steps in 2 attempts" in text
    assert "### 1. device-oom (OOM101)" in text
    assert "- decision: trained the batch of 4096 as micro-batches of 1024" in text
    assert "| Step time: time of a step | 320 ms | 320 ms | 320 ms | 320 ms |" in text


def test_texts_of_a_run_are_no_markup_in_markdown(tmp_path):
    run = survived(tmp_path / "run", message="| **bold** `code` <b>OOM</b>\n# heading\x1b[31m OOM when allocating")
    text = as_markdown(read_recording(run))
    assert "\\| \\*\\*bold\\*\\* \\`code\\` \\<b\\>OOM\\</b\\>\\\\x0a\\# heading" in text
    assert "\x1b" not in text


def test_json_has_every_number_of_the_charts(recording):
    document = json.loads(json.dumps(as_document(recording)))
    assert document["schema"] == 1
    assert document["summary"]["exactness"] == "verified"
    assert document["steps_kept"] == 100
    assert [each["fault"] for each in document["incidents"]] == ["device-oom", "killed"]
    assert document["incidents"][0]["time"] - BEGIN == 20
    assert [each["resumed_at"] for each in document["attempts"]] == [None, 100]
    assert document["micro_batches"] == [{"time": BEGIN + 31, "size": 1024}]
    pool = document["charts"][0]
    assert (pool["title"], pool["unit"]) == ("Memory held by TensorFlow", "bytes")
    assert pool["curves"][2] == {"name": "limit", "limit": True, "values": [14.0 * GIB] * 300}
    assert len(document["times"]) == document["samples"] == 300


def test_csv_has_a_row_for_each_sample(recording):
    rows = list(csv.DictReader(io.StringIO("".join(csv_lines(recording)))))
    assert len(rows) == 300
    assert float(rows[7]["time"]) == BEGIN + 7
    assert float(rows[7]["training.steps_total"]) == 21
    assert float(rows[20]["gpu1.temperature_slowdown_celsius"]) == 92
    assert rows[21]["gpu1.temperature_slowdown_celsius"] == "", "it was not read at that time"


@pytest.mark.parametrize("size", ["x", [None], {}, -5, 1e400, True])
def test_memory_of_the_machine_that_is_no_amount_is_left_out(size):
    assert _amount(size) == ""


def test_memory_of_the_machine_is_an_amount():
    assert _amount(48 << 30) == "48.0 GiB"
