"""Several workers in the live view, in one snapshot, as JSON and for Prometheus: the worst first, each once."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from recorded_workers import readings, record, several

from oomph.monitor.pace import Pace, PaceBoard
from oomph.process.process_identity import ProcessIdentity
from oomph.run.directory.run_directory import RUNNING
from oomph.watch import worker_reader
from oomph.watch.charts import ASCII
from oomph.watch.exposition import exposition
from oomph.watch.feed import Feed
from oomph.watch.keys import ViewChoice
from oomph.watch.once import as_document, as_text
from oomph.watch.screen import lines_of
from oomph.watch.view import View
from oomph.watch.worker_reader import WorkerReader
from oomph.watch.workers import HUNG, Trace, workers_of, worst_first


def view(run: Path) -> View:
    feed = Feed(run)
    try:
        return feed.look()
    finally:
        feed.close()


def screen(run: Path, width: int = 80, height: int = 24) -> list[str]:
    lines = [line.plain for line in lines_of(view(run), ViewChoice(), width, height)]
    assert len(lines) == height
    assert all(len(line) <= width for line in lines)
    return lines


def test_two_workers_have_a_row_each_and_the_late_one_is_named(tmp_path):
    lines = screen(several(tmp_path / "run", 2, late={1: 0.29}))
    head = next(place for place, line in enumerate(lines) if line.startswith("worker state"))
    assert lines[head - 1] == "worker 1 is late by 90.0 ms in every step of 300.0 ms: its own part takes longer"
    assert [line.split()[:2] for line in lines[head + 1 : head + 3]] == [["1", "ended"], ["0", "ended"]]


def test_sixty_four_workers_fit_24_lines_the_late_one_first_and_the_rest_in_one(tmp_path):
    lines = screen(several(tmp_path / "run", 64, late={17: 0.29}, hosts=dict.fromkeys(range(32, 64), "node-1")))
    head = next(place for place, line in enumerate(lines) if line.startswith("worker state"))
    assert lines[head + 1].split()[0] == "17"
    last = next(line for line in lines if "more: " in line)
    shown = lines.index(last) - head - 1
    assert last.startswith(f"… {64 - shown} more: {64 - shown} ended, step 1,996, own part 200.0 ms to 20")


def test_healthy_workers_are_not_called_late(tmp_path):
    run = several(tmp_path / "run", 8)
    assert view(run).jobs[0].straggler is None
    assert " late" not in "\n".join(screen(run))


@pytest.mark.parametrize("size", [(40, 10), (40, 20), (60, 24), (80, 24), (200, 60)])
@pytest.mark.parametrize("count", [2, 64])
def test_workers_fit_every_screen_also_in_ascii(tmp_path, size, count):
    found = view(several(tmp_path / "run", count, late={1: 0.29}, hosts={1: "\x1b[31m\u202e<script>" + "x" * 100}))
    for line in lines_of(found, ViewChoice(), *size, ASCII):
        assert line.cell_len <= size[0]
        assert "\x1b" not in line.plain
        assert "\u202e" not in line.plain


def test_snapshot_names_them_and_json_has_all(tmp_path):
    found = view(several(tmp_path / "run", 20, late={3: 0.29}, hosts={3: "node-3"}))
    text = as_text(found, 100)
    assert "worker 3 is late by 87.0 ms in every step of 300.0 ms: its own part takes longer" in text
    assert "… 4 more: 4 ended" in text
    (job,) = json.loads(json.dumps(as_document(found)))["jobs"]
    assert [each["rank"] for each in job["workers"]] == [*range(20)]
    assert job["workers"][3]["host"] == "node-3"
    assert job["workers"][3]["own_seconds"] == pytest.approx(0.29)
    assert job["straggler"]["rank"] == 3


def test_every_series_has_job_rank_and_host_and_none_is_served_twice(tmp_path):
    found = view(several(tmp_path / "run", 3, hosts={2: 'node"2\n'}))
    text = exposition(replace(found, time=found.jobs[0].sampled))
    lines = [line.rpartition(" ")[0] for line in text.splitlines() if not line.startswith("#")]
    assert len(lines) == len(set(lines))
    series = {
        sample.name: sample.labels
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.labels.get("rank") == "2"
    }
    assert {
        "oomph_training_steps_total",
        "oomph_training_all_reduce_seconds_total",
        "oomph_process_resident_bytes",
    } <= {*series}
    assert all(labels == {"run": "run", "rank": "2", "host": 'node"2'} for labels in series.values())


def _trace(rank: int, attempt: int = 1, seconds: int = 60, **about: object) -> Trace:
    pace = Pace(rank, ProcessIdentity(rank, "here", "boot", "1"), tuple(readings(seconds, attempt=attempt)))
    return Trace(pace, **about)  # type: ignore[arg-type]


def _states(*traces: Trace, attempt: int = 1, failures: Mapping[int, tuple[int, str]] = {}) -> dict[int, str]:
    found = workers_of(traces, len(traces), attempt, going_on=True, failures=failures)
    return {each.rank: each.state for each in worst_first(found)}


def test_dead_hung_stopped_and_slow_workers_are_marked_and_come_first():
    traces = (
        _trace(0),
        _trace(1, seconds=40, silent_seconds=20.0),
        _trace(2, is_stopped=True),
        _trace(3),
        _trace(4, lives=False),
        _trace(5, attempt=1),
    )
    found = _states(*traces, failures={3: (1, HUNG)})
    assert [*found.items()] == [
        (4, "dead"), (3, "hung"), (2, "stopped"), (1, "behind"), (0, "training"), (5, "training"),
    ]  # fmt: skip


def test_worker_without_a_reading_in_this_attempt_is_starting_and_old_failures_do_not_count():
    found = _states(_trace(0, 2), _trace(1, 1, lives=False), attempt=2, failures={0: (1, HUNG)})
    assert found == {0: "training", 1: "starting"}


def test_all_silent_workers_at_the_same_step_are_not_called_behind():
    assert set(_states(_trace(0, silent_seconds=99.0), _trace(1, silent_seconds=99.0)).values()) == {"no steps"}


def test_reader_follows_a_running_worker_and_sees_whether_its_process_is_alive(tmp_path, monkeypatch):
    run = several(tmp_path / "run", 2, seconds=60, status=RUNNING)
    reader = WorkerReader(run)
    assert [len(trace.pace.readings) for trace in reader.read(going_on=True)] == [60, 60]
    board = PaceBoard(run)
    board.write(list(readings(62))[-1])
    board.close()
    monkeypatch.setattr(worker_reader, "_FRESH_SECONDS", 0.0)
    first, second = reader.read(going_on=True)
    assert (first.pace.newest, first.lives) == (list(readings(62))[-1], True)
    assert first.pace.owner.pid == os.getpid()
    assert (second.pace.newest.steps, second.lives) == (196, None), "nobody can tell from here"
    gone = ProcessIdentity.here()._replace(began="1")
    record(run, 0, readings(63), gone)
    assert reader.read(going_on=True)[0].lives is False


def test_reader_keeps_few_readings_of_a_long_run_and_still_finds_the_late_worker(tmp_path):
    run = several(tmp_path / "run", 2, late={1: 0.29}, status=RUNNING)
    reader, boards = WorkerReader(run), [PaceBoard(run), PaceBoard(run / "workers" / "1")]
    reader.read(going_on=True)
    for own, board in zip((0.2, 0.29), boards, strict=True):
        for each in list(readings(700, own))[600:]:
            board.write(each)
            reader.read(going_on=True)
        board.close()
    traces = reader.read(going_on=True)
    assert all(10 < len(trace.pace.readings) < 80 for trace in traces)
    assert traces[0].pace.newest.steps == int(699 / 0.3)
    found = reader.straggler()
    assert found is not None
    assert found.rank == 1


def test_run_of_one_worker_looks_as_before(tmp_path):
    assert view(several(tmp_path / "run", 1)).jobs[0].workers == ()
