"""The sampler as its parent starts it: on fake GPUs, without any, twice in one run, and with its parent killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

import oomph
from oomph.monitor.finding import FindingChanges
from oomph.monitor.process import SamplerProcess
from oomph.monitor.sample import Sample
from oomph.monitor.store import read

pytestmark = pytest.mark.rig

SECONDS = 60
SOURCE = str(Path(oomph.__file__).parents[1])


def until(look: Callable[[], object]) -> object:
    """Poll, and return the result as soon as there is one."""
    end = time.monotonic() + SECONDS
    while not (seen := look()):
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)
    return seen


@pytest.fixture(name="start")
def _start(driver, tmp_path, monkeypatch) -> Iterator[Callable[..., SamplerProcess]]:
    """Start samplers on GPUs that follow a script, and stop them."""
    started: list[SamplerProcess] = []

    def start(script: str = "", run_dir: Path = tmp_path, pid: int | None = None) -> SamplerProcess:
        (tmp_path / "timeline").write_text(script)
        monkeypatch.setenv("FAKE_NVML_SCRIPT", str(tmp_path / "timeline"))
        monkeypatch.setenv("LD_LIBRARY_PATH", str(driver))
        monkeypatch.setenv("PYTHONPATH", SOURCE)
        started.append(SamplerProcess(run_dir, pid))
        return started[-1]

    yield start
    for sampler in started:
        sampler.close()


def samples(run_dir: Path, most: int = 1) -> list[Sample]:
    found = until(lambda: (kept := list(read(run_dir))) and len(kept) >= most and kept)
    assert isinstance(found, list)
    return found


def process(sampler: SamplerProcess) -> psutil.Process:
    assert sampler._process is not None
    return psutil.Process(sampler._process.pid)


def test_sampler_records_the_gpus_the_host_and_the_script(start, tmp_path):
    sampler = start("set gpus 2\nat 0 * mem_used 3G\nproc 0 7", pid=os.getpid())
    kept = until(lambda: (found := [sample for sample in read(tmp_path) if sample.gpus]) and len(found) > 1 and found)
    assert [gpu.values["memory_used_bytes"] for gpu in kept[-1].gpus] == [3 << 30] * 2
    assert any(
        held.pid == 7 and not held.own for held in next(s.gpus[0].processes for s in kept if s.gpus[0].processes)
    )
    assert kept[-1].host["memory_total_bytes"] > 0
    assert kept[-1].process["resident_bytes"] > 0
    assert (sampler.alive, sampler.problem, sampler.changes().told) == (True, "", ())


def test_sampler_ignores_ctrl_c_and_exits_when_closed(start, tmp_path):
    sampler = start()
    samples(tmp_path)
    assert os.getsid(process(sampler).pid) != os.getsid(0)
    os.kill(process(sampler).pid, signal.SIGINT)
    os.kill(process(sampler).pid, signal.SIGHUP)
    samples(tmp_path, 2)
    sampler.close()
    assert sampler._process.returncode == 0
    assert not sampler.alive


def test_sampler_exits_when_its_parent_is_killed(driver, tmp_path):
    words = (
        "from oomph.monitor.process import *; s = SamplerProcess(Path('.')); print(s._process.pid, flush=True); input()"
    )
    environ = {**os.environ, "PYTHONPATH": SOURCE, "LD_LIBRARY_PATH": str(driver)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", words], cwd=tmp_path, env=environ, **pipes) as parent:
        sampler = psutil.Process(int(parent.stdout.readline()))
        samples(tmp_path)
        parent.kill()
    until(lambda: not sampler.is_running() or sampler.status() == psutil.STATUS_ZOMBIE)


def test_killed_sampler_is_reported(start, tmp_path):
    sampler = start()
    samples(tmp_path)
    sampler.changes()
    assert sampler.problem == ""
    process(sampler).kill()
    until(lambda: not sampler.alive)
    assert sampler.changes() == FindingChanges()
    assert sampler.problem == "the sampler exited: nothing is being measured"


def test_second_sampler_of_a_run_exits_with_a_clear_message(start, tmp_path):
    first = start()
    samples(tmp_path)
    second = start()
    until(lambda: not second.alive)
    assert second.changes().told == ()
    assert second.problem == f"another sampler is already running in {tmp_path}"
    assert first.alive


def test_missing_run_directory_is_reported(start, tmp_path):
    sampler = start(run_dir=tmp_path / "gone")
    until(lambda: not sampler.alive)
    sampler.changes()
    assert sampler.problem == f"cannot store samples in {tmp_path / 'gone'}: No such file or directory"


def test_link_in_place_of_the_lock_is_not_followed(start, tmp_path):
    (tmp_path / "monitor").mkdir()
    (tmp_path / "monitor/sampler").symlink_to(tmp_path / "precious")
    sampler = start()
    until(lambda: not sampler.alive)
    sampler.changes()
    assert "is a link" in sampler.problem
    assert not (tmp_path / "precious").exists()


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("set init_error 4", "this user is not allowed to query the NVIDIA driver"),
        ("set gpus 0", "the NVIDIA driver sees no GPU"),
    ],
)
def test_sampler_without_gpus_silently_samples_the_host(start, driver, tmp_path, script, problem):
    start(script).close()
    command = [sys.executable, "-m", "oomph.monitor.sampler", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd="/") as sampler:
        kept = samples(tmp_path, 2)[-1]
        cpu = sum(psutil.Process(sampler.pid).cpu_times()[:2])
        sampler.terminate()
        said, _ = sampler.communicate(timeout=SECONDS)
    assert (kept.gpus, kept.problems["nvml"]) == ((), problem)
    assert kept.host
    assert said == b""
    assert cpu < 5  # no busy loop


@pytest.mark.slow
def test_hanging_driver_does_not_block_the_sampler(start, tmp_path):
    sampler = start("at 0 0 hang 600")
    kept = until(lambda: [sample for sample in read(tmp_path) if any(gpu.problem for gpu in sample.gpus)])
    assert kept[0].gpus[0].problem.startswith("no answer for ")
    assert kept[0].host
    sampler.close()
    assert sampler._process.returncode == 0


def test_sampler_that_cannot_be_started_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    sampler = SamplerProcess(tmp_path)
    assert (sampler.alive, sampler.changes().told) == (False, ())
    assert sampler.problem == "cannot start the sampler: No such file or directory"
    sampler.close()


def test_sampler_resolves_relative_search_paths(start, driver, tmp_path, monkeypatch):
    start().close()
    monkeypatch.chdir(driver.parent)
    monkeypatch.setenv("LD_LIBRARY_PATH", "driver")
    monkeypatch.setenv("PYTHONPATH", os.path.relpath(SOURCE))
    sampler = SamplerProcess(tmp_path)
    until(lambda: any(sample.gpus for sample in read(tmp_path)))
    sampler.close()


def test_sampler_does_not_import_modules_from_the_current_folder(start, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("json", "psutil", "pynvml", "queue", "oomph"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the wrong one')")
    start()
    samples(tmp_path)


@pytest.mark.alone
def test_starting_the_sampler_takes_its_parent_under_two_milliseconds(start, tmp_path):
    costs = []
    for _ in range(7):
        began = time.perf_counter()
        sampler = start()
        costs.append(time.perf_counter() - began)
        samples(tmp_path)
        sampler.close()
    assert min(costs) < 0.002
