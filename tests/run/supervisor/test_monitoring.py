"""The sampler's findings during an attempt are recorded and reported; without a sampler, the run continues."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from oomph.explain.catalogue.catalogue import find
from oomph.journal.events import FindingMade, FindingOver
from oomph.monitor.finding import Finding, FindingChanges, FindingEnded, as_data, in_words
from oomph.run.supervisor import monitoring
from oomph.run.supervisor.monitoring import Monitoring
from oomph.terminal.console import Voice

HOT = Finding(
    "thermal-throttle", "GPU 0", "it runs at 60 % of its clock", remedy="Clean the fan", evidence={"share": 0.6}
)


class Sampler:
    """What the supervisor knows about a sampler."""

    def __init__(self, run_dir: Path, script_pid: int) -> None:
        self.pid, self.closed, self.problem = script_pid, False, ""
        self.waiting = FindingChanges((HOT,))

    def changes(self) -> FindingChanges:
        found, self.waiting = self.waiting, FindingChanges()
        return found

    def close(self) -> None:
        self.closed, self.waiting = True, FindingChanges((Finding("memory-leak", "device memory", "12 MiB an epoch"),))


@pytest.fixture
def begun(monkeypatch, tmp_path):
    started: list[Sampler] = []
    monkeypatch.setattr(monitoring, "SamplerProcess", lambda *of: started.append(Sampler(*of)) or started[-1])
    monkeypatch.setattr(monitoring, "_START_SECONDS", 0.0)
    monkeypatch.setattr(monitoring, "_LOOK_SECONDS", 0.0)
    events: list[Any] = []
    said: list[str] = []
    voice = Voice()
    monkeypatch.setattr(voice, "say", said.append)
    return (
        Monitoring(tmp_path, events.append, voice),
        started,
        events,
        said,
    )


def test_every_finding_including_the_last_is_recorded_and_reported(begun):
    watching, started, events, said = begun
    for _ in range(3):
        watching.attend(41)
    assert [sampler.pid for sampler in started] == [41]
    assert events == [FindingMade(**as_data(HOT))]
    assert said == ["warning: GPU 0: it runs at 60 % of its clock (thermal-throttle, HWD802). Clean the fan"]
    watching.close()
    watching.attend(41)
    assert started[0].closed
    assert [event.fault for event in events] == ["thermal-throttle", "memory-leak"]
    assert len(started) == 1


def test_recurring_or_ended_finding_is_recorded_silently(begun):
    watching, started, events, said = begun
    watching.attend(41)
    started[0].waiting = FindingChanges(
        returned=(HOT,), ended=(FindingEnded("thermal-throttle", "GPU 0", "", 1007.5, 7.5),)
    )
    watching.attend(41)
    assert events[1:] == [
        FindingMade(**as_data(HOT), again=True),
        FindingOver(fault="thermal-throttle", subject="GPU 0", until=1007.5, seconds=7.5),
    ]
    assert len(said) == 1


def test_end_of_a_finding_that_lasted_is_reported_once(begun):
    watching, started, _, said = begun
    watching.attend(41)
    for seconds in (720.0, 5.0):  # it recurs silently, so its second end is not reported
        started[0].waiting = FindingChanges(ended=(FindingEnded("thermal-throttle", "GPU 0", "", 1720.0, seconds),))
        watching.attend(41)
    assert said[1:] == ["GPU 0: over after 12 min (thermal-throttle, HWD802)"]


def test_end_of_a_finding_that_was_over_at_once_is_not_reported(begun):
    watching, started, _, said = begun
    started_with = FindingChanges((HOT,), ended=(FindingEnded("thermal-throttle", "GPU 0", "", 1000.0, 0.0),))
    watching.attend(41)
    started[0].waiting = started_with
    watching.attend(41)
    assert not any("over after" in line for line in said)


def test_cause_of_missing_samples_is_reported_once(begun):
    watching, started, _, said = begun
    watching.attend(41)
    for problem in ("samples are not stored: the disk is full", "", "samples are not stored: the disk is full"):
        started[0].problem = problem
        watching.attend(41)
    assert said[1:] == ["monitor: samples are not stored: the disk is full"]


def test_fragmentation_in_an_allocator_report_is_reported_once(begun):
    watching, _, events, said = begun
    page = find("device-oom-fragmentation")
    for report in (b"", b"\0" * 999, *[page.example.encode()] * 3):
        watching.read_report(report)
    event, ended = events
    assert (type(ended), ended.fault, ended.seconds) == (FindingOver, page.name, 0)
    assert (event.fault, event.code, event.figures["fragmentation"]) == (page.name, page.code, 0.5)
    assert said == [
        "warning: TensorFlow's memory: 1.0 GiB did not fit, although 1.5 GiB was free: the largest piece was 768 MiB"
        " (device-oom-fragmentation, OOM102). Set TF_GPU_ALLOCATOR=cuda_malloc_async: CUDA's own allocator can combine"
        " scattered pieces"
    ]


def test_run_without_a_directory_does_not_start_a_sampler(begun):
    _, started, _, _ = begun
    watching = Monitoring(None, lambda name, **data: None, Voice())
    watching.attend(41)
    watching.close()
    assert started == []


def test_short_script_does_not_start_a_sampler(monkeypatch, tmp_path):
    monkeypatch.setattr(monitoring, "SamplerProcess", lambda *of: pytest.fail("started"))
    watching = Monitoring(tmp_path, lambda name, **data: None, Voice())
    watching.attend(41)
    watching.close()


def test_finding_without_a_remedy_gets_its_pages_first_remedy():
    text = in_words(Finding("memory-leak", "device memory", "12 MiB an epoch"))
    assert text.startswith("warning: device memory: 12 MiB an epoch (memory-leak, OOM104). ")
    assert "{" not in text
