"""Which runs and GPUs are shown: the runs active here, otherwise the latest one, otherwise the machine."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

import pytest

from oomph.journal.events import FindingMade
from oomph.journal.journal import Journal
from oomph.monitor.finding import Finding, FindingChanges
from oomph.monitor.sample import GpuSample, Sample
from oomph.monitor.store import Store
from oomph.process.process_identity import ProcessIdentity
from oomph.protocol.progress import ProgressBoard
from oomph.run.directory.run_directory import FINISHED, RunDirectory, RunRecord
from oomph.watch import feed as feed_module
from oomph.watch.feed import Feed
from oomph.watch.runs import KEPT, RunReader, runs_of

RECORD = RunRecord(("train.py",), "python", "/here", "", attempts=1)


class NoMachine:
    """Stands in for the machine, and counts its samples."""

    made = 0

    def __init__(self) -> None:
        NoMachine.made += 1
        self.closed = False

    def sample(self) -> Sample:
        return Sample(time.time(), (GpuSample(0, "GPU-own"),))

    def close(self) -> None:
        self.closed = True


@pytest.fixture(autouse=True)
def _no_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_module, "MachineFeed", NoMachine)
    monkeypatch.setattr(feed_module, "_CHOOSE_SECONDS", -1.0)
    NoMachine.made = 0


def new_run(folder: Path, name: str, at: float = 0.0) -> RunDirectory:
    run = RunDirectory.create(folder / ".oomph" / "runs" / name, RECORD)
    if at:
        os.utime(run.path / "run.json", (at, at))
    return run


def keep(run: RunDirectory, *times: float) -> None:
    store = Store(run.path)
    for at in times:
        store.append(Sample(at, (GpuSample(0, "GPU-run"),)))
    store.close()


def uuids(feed: Feed) -> list[str]:
    return [gpu.uuid for gpu in feed.look().gpus]


def test_machine_is_shown_without_a_run(tmp_path):
    feed = Feed(None, tmp_path)
    view = feed.look()
    assert ([gpu.uuid for gpu in view.gpus], view.jobs) == (["GPU-own"], ())


def test_active_runs_measurements_replace_those_of_the_machine(tmp_path):
    run = new_run(tmp_path, "a")
    keep(run, time.time() - 1, time.time())
    feed = Feed(None, tmp_path)
    view = feed.look()
    assert ([gpu.uuid for gpu in view.gpus], view.jobs[0].state, view.problems) == (["GPU-run"], "running", {})
    assert NoMachine.made == 0
    run.close()


def test_the_machine_is_measured_when_a_runs_samples_stop(tmp_path):
    run = new_run(tmp_path, "a")
    keep(run, time.time() - 100)
    view = Feed(None, tmp_path).look()
    assert [gpu.uuid for gpu in view.gpus] == ["GPU-own"]
    assert view.problems["monitor"].startswith("no samples from the run for 10")
    run.close()


def test_the_machine_is_no_longer_measured_once_the_run_writes_samples(tmp_path):
    run = new_run(tmp_path, "a")
    feed = Feed(None, tmp_path)
    assert uuids(feed) == ["GPU-own"]
    keep(run, time.time())
    assert uuids(feed) == ["GPU-run"]
    assert feed._machine is None
    run.close()


def test_all_active_runs_are_shown_or_else_the_latest_one(tmp_path):
    first, second, third = (new_run(tmp_path, name, at) for name, at in (("a", 1e9), ("b", 2e9), ("c", 3e9)))
    third.update(status=FINISHED)
    feed = Feed(None, tmp_path)
    assert [Path(job.run).name for job in feed.look().jobs] == ["b", "a"]
    first.update(status=FINISHED)
    second.update(status=FINISHED)
    os.utime(third.path / "run.json", (4e9, 4e9))
    assert [(Path(job.run).name, job.state) for job in feed.look().jobs] == [("c", "finished")]
    for run in (first, second, third):
        run.close()


def test_a_requested_run_that_has_ended_is_shown_with_its_last_sample(tmp_path):
    run = new_run(tmp_path, "a")
    keep(run, 1e9)
    run.update(status=FINISHED)
    run.close()
    view = Feed(run.path, tmp_path).look()
    assert ([gpu.uuid for gpu in view.gpus], view.sampled, view.problems) == (["GPU-run"], 1e9, {})


def test_a_run_locked_by_another_machine_counts_as_running(tmp_path):
    run = new_run(tmp_path, "a")
    run.close()
    (run.path / "lock").write_text(ProcessIdentity(1, "elsewhere", "boot", "7").to_text())
    keep(run, time.time() - 100)
    view = Feed(run.path, tmp_path).look()
    assert (view.jobs[0].state, [gpu.uuid for gpu in view.gpus]) == ("running", ["GPU-run"])
    assert "monitor" in view.problems
    (run.path / "lock").write_text("")
    assert Feed(run.path, tmp_path).look().jobs[0].state == "unfinished"


def test_viewing_a_run_never_takes_its_lock(tmp_path, monkeypatch):
    run = new_run(tmp_path, "a")
    monkeypatch.setattr(fcntl, "flock", lambda *_: pytest.fail("locked"))
    assert Feed(None, tmp_path).look().jobs[0].state == "running"
    run.close()


def test_a_run_keeps_its_number_while_others_start(tmp_path):
    runs = [new_run(tmp_path, "a", 2e9), new_run(tmp_path, "b", 3e9)]
    feed = Feed(None, tmp_path)
    assert [Path(job.run).name for job in feed.look().jobs] == ["b", "a"]
    runs.append(new_run(tmp_path, "c", 4e9))
    os.utime(runs[0].path / "run.json", (5e9, 5e9))
    assert [Path(job.run).name for job in feed.look().jobs] == ["b", "a", "c"]
    for run in runs:
        run.close()


def test_journal_is_reread_only_when_it_has_changed(tmp_path, monkeypatch):
    run = new_run(tmp_path, "a")
    journal = Journal(run.path, 1, "supervisor")
    reader = RunReader(run.path)
    assert reader.read().highlights.incidents == ()
    journal.write(FindingMade(fault="memory-leak"))
    first = reader.read().highlights
    assert [(each.fault, each.run) for each in first.incidents] == [("memory-leak", str(run.path))]
    assert reader.read().highlights is first
    journal.close()
    run.close()


def test_a_run_reader_keeps_only_the_most_recent_samples(tmp_path):
    run = new_run(tmp_path, "a")
    keep(run, *range(1, KEPT + 50))
    ProgressBoard(run.path, 1).write(0, 2, 3, 203, 200)
    reader = RunReader(run.path)
    found = reader.read()
    assert [found.samples[0].time, found.samples[-1].time] == [50, KEPT + 49]
    assert found.progress.epoch == 2
    keep(run, 1000.0)
    assert reader.read().samples[-1].time == 1000.0
    run.close()


def test_a_monitor_folder_is_shown_as_a_run(tmp_path):
    store = Store(tmp_path)
    store.append(Sample(time.time(), (GpuSample(0, "GPU-run"),), training={"epoch": 2.0}))
    feed = Feed(tmp_path, tmp_path)
    view = feed.look()
    assert (view.jobs[0].state, view.jobs[0].epoch, [gpu.uuid for gpu in view.gpus]) == ("monitored", 2, ["GPU-run"])
    store.close()
    old = time.time() + 100
    with pytest.MonkeyPatch.context() as later:
        later.setattr(time, "time", lambda: old)
        assert feed.look().jobs[0].state == "no longer monitored"


def monitored(folder: Path, name: str, at: float) -> Path:
    path = folder / ".oomph/monitor" / name
    path.mkdir(parents=True)
    store = Store(path)
    store.append(Sample(at, (GpuSample(0, f"GPU-{name}"),)))
    store.close()
    os.utime(path / "monitor/samples.jsonl", (at, at))
    return path


def test_monitored_training_is_shown_alongside_runs(tmp_path):
    over, now = monitored(tmp_path, "over", 1e9), monitored(tmp_path, "now", time.time())
    run = new_run(tmp_path, "a", 2e9)
    jobs = Feed(None, tmp_path).look().jobs
    assert [(Path(job.run), job.state) for job in jobs] == [(run.path, "running"), (now, "monitored")]
    run.update(status=FINISHED)
    os.utime(run.path / "run.json", (2e9, 2e9))
    run.close()
    assert [Path(job.run) for job in Feed(None, tmp_path).look().jobs] == [now]
    assert runs_of(tmp_path) == [run.path, now, over]


def test_latest_training_run_is_shown_when_none_is_running(tmp_path):
    last = monitored(tmp_path, "last", 3e8)
    run = new_run(tmp_path, "a", 2e8)
    run.update(status=FINISHED)
    os.utime(run.path / "run.json", (2e8, 2e8))
    run.close()
    assert [(Path(job.run), job.state) for job in Feed(None, tmp_path).look().jobs] == [(last, "no longer monitored")]


def test_only_current_measurements_raise_alerts(tmp_path, monkeypatch):
    found = (Finding("hardware-fault", "GPU 0", "it is lost"),)
    monkeypatch.setattr("oomph.monitor.detection.Detection.take", lambda self, sample: FindingChanges(found))
    monkeypatch.setattr("oomph.monitor.detection.Detection.active", [("hardware-fault", "GPU 0", "")])
    run = new_run(tmp_path, "a")
    keep(run, 1e9)
    run.update(status=FINISHED)
    run.close()
    assert Feed(run.path, tmp_path).look().alerts == ()
    assert [alert.fault for alert in Feed(None, tmp_path).look().alerts] == ["hardware-fault"]


def test_damaged_and_unrelated_folders_are_not_shown_as_runs(tmp_path):
    for name in ("empty", "damaged"):
        (tmp_path / ".oomph/runs" / name).mkdir(parents=True)
    (tmp_path / ".oomph/runs/damaged/run.json").write_text("{")
    (tmp_path / ".oomph/runs/file").touch()
    assert [path.name for path in runs_of(tmp_path)] == ["damaged"]
    assert Feed(None, tmp_path).look().jobs == ()
    assert runs_of(tmp_path / "missing") == []


@pytest.mark.parametrize("record", ['{"schema": 7}', "{", ""])
def test_unreadable_run_is_not_shown_as_monitored_training(tmp_path, record):
    run = new_run(tmp_path, "a")
    keep(run, time.time())
    run.close()
    (run.path / "run.json").write_text(record)
    assert Feed(None, tmp_path).look().jobs == ()


def test_first_view_waits_until_the_driver_reports_a_gpu(tmp_path, monkeypatch):
    answers = [(), (), (GpuSample(0, "late"),)]
    monkeypatch.setattr(NoMachine, "sample", lambda self: Sample(time.time(), answers.pop(0)))
    assert [gpu.uuid for gpu in Feed(None, tmp_path).first_look().gpus] == ["late"]


def test_first_look_at_a_run_that_is_over_does_not_wait_for_gpus(tmp_path):
    run = new_run(tmp_path, "a")
    run.update(status="finished")
    run.close()
    looks = []
    feed = Feed(run.path, tmp_path)
    look = feed.look
    feed.look = lambda: looks.append(1) or look()
    assert feed.first_look().gpus == ()
    assert looks == [1]
