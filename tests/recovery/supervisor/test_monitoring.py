"""What the sampler of an attempt finds is recorded and told; without a sampler the run goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from oomph.console import Voice
from oomph.monitor.finding import Finding
from oomph.monitor.in_words import as_data, in_words
from oomph.recovery.supervisor import monitoring
from oomph.recovery.supervisor.monitoring import Monitoring

HOT = Finding(
    "thermal-throttle", "GPU 0", "it runs at 60 % of its clock", remedy="Clean the fan", evidence={"share": 0.6}
)


class Sampler:
    """What the supervisor knows of a sampler."""

    def __init__(self, run_dir: Path, script_pid: int) -> None:
        self.pid, self.closed = script_pid, False
        self.waiting = [HOT]

    def findings(self) -> list[Finding]:
        found, self.waiting = self.waiting, []
        return found

    def close(self) -> None:
        self.closed, self.waiting = True, [Finding("memory-leak", "device memory", "12 MiB an epoch")]


@pytest.fixture
def begun(monkeypatch, tmp_path):
    started: list[Sampler] = []
    monkeypatch.setattr(monitoring, "SamplerProcess", lambda *of: started.append(Sampler(*of)) or started[-1])
    monkeypatch.setattr(monitoring, "_START_SECONDS", 0.0)
    monkeypatch.setattr(monitoring, "_LOOK_SECONDS", 0.0)
    events: list[dict[str, Any]] = []
    said: list[str] = []
    voice = Voice()
    monkeypatch.setattr(voice, "say", said.append)
    return (
        Monitoring(tmp_path, lambda name, **data: events.append({"event": name, **data}), voice),
        started,
        events,
        said,
    )


def test_a_finding_is_recorded_and_told_and_so_is_what_the_sampler_found_last(begun):
    watching, started, events, said = begun
    for _ in range(3):
        watching.attend(41)
    assert [sampler.pid for sampler in started] == [41]
    assert events == [{"event": "finding", **as_data(HOT)}]
    assert said == ["GPU 0: it runs at 60 % of its clock (thermal-throttle, HWD802). Clean the fan"]
    watching.close()
    watching.attend(41)
    assert started[0].closed
    assert [event["fault"] for event in events] == ["thermal-throttle", "memory-leak"]
    assert len(started) == 1


def test_a_run_without_a_directory_has_no_sampler(begun):
    _, started, _, _ = begun
    watching = Monitoring(None, lambda name, **data: None, Voice())
    watching.attend(41)
    watching.close()
    assert started == []


def test_a_short_script_has_none_either(monkeypatch, tmp_path):
    monkeypatch.setattr(monitoring, "SamplerProcess", lambda *of: pytest.fail("started"))
    watching = Monitoring(tmp_path, lambda name, **data: None, Voice())
    watching.attend(41)
    watching.close()


def test_a_finding_without_a_remedy_of_its_own_has_the_first_of_its_page():
    text = in_words(Finding("memory-leak", "device memory", "12 MiB an epoch"))
    assert text.startswith("device memory: 12 MiB an epoch (memory-leak, OOM104). ")
    assert "{" not in text
