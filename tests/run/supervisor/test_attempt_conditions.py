"""The machine during an attempt: the kernel log, NVML, and the possible changes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import oomph
from oomph.explain.catalogue import xid
from oomph.explain.reading import kernel_log
from oomph.explain.reading.kernel_log import KernelLog, broken_bus, oom_killed_at, that_concern
from oomph.gpu.memory_in_use import Gpu, PendingReading, memory_is_back, visible
from oomph.journal.journal import Event
from oomph.run.policy.ladder import LADDERS, OPT_IN, SAME, Change, climb
from oomph.run.supervisor import effects
from oomph.run.supervisor.attempt_conditions import Machine, conditions

SOURCE = Path(oomph.__file__).parents[1]
BUSES = {"00000000:3B:00.0", "00000000:AF:00.0"}
XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
KILL = "Memory cgroup out of memory: Killed process 6492 (python3) total-vm:426156kB, anon-rss:204160kB, file-rss:6kB"
GPUS = (Gpu(0, "GPU-aa", "00000000:3B:00.0", 1 << 30), Gpu(1, "GPU-bb", "00000000:AF:00.0", 0))


def test_kernel_log_is_read_only_from_the_start_of_the_attempt(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    path.write_text("6,1,1,-;old\n")
    log = KernelLog(path)
    assert log.read() == []
    with path.open("a") as file:
        file.write(f"3,2,2,-;{XID}\n4,3,3,-;something else\n")
    assert log.read() == [XID, "something else"]
    log.close()
    assert log.read() == []
    assert KernelLog(tmp_path / "none").read() == []


def test_kernel_log_has_the_times_at_which_one_process_was_killed(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    other = KILL.replace("6492", "64920")
    path.write_text(f"6,1,5000000,-;{KILL}\n6,2,6000000,-;{other}\nbroken;{KILL}\n4,3,7000001,-;{KILL}\n SUBSYSTEM=x\n")
    assert list(oom_killed_at(6492, path)) == [5_000_000_000, 7_000_001_000]
    assert list(oom_killed_at(6492, tmp_path / "none")) == []


def test_kernel_lines_about_other_processes_and_gpus_are_ignored() -> None:
    other = XID.replace("3b", "5e")
    lines = [KILL, KILL.replace("6492", "777"), XID, other, "usb 1-1: new device"]
    assert that_concern(lines, [6492], BUSES) == [KILL, XID]
    assert that_concern(lines, [], []) == [XID, other]
    assert broken_bus([XID], BUSES) == "00000000:3B:00.0"
    assert broken_bus([XID], []) == "0000:3b:00"
    assert broken_bus([XID.replace(": 79,", ": 31,"), KILL], BUSES) is None


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [(None, [0, 1]), ("", []), ("-1", []), ("1", [1]), ("1,0", [1, 0]), ("GPU-aa", [0]), ("0,7,1", [0]), ("GPU-", [])],
)
def test_cuda_visible_devices_determines_the_visible_gpus(wanted, expected) -> None:
    environ = {} if wanted is None else {"CUDA_VISIBLE_DEVICES": wanted}
    assert [gpu.index for gpu in visible(GPUS, environ)] == expected


def test_memory_counts_as_freed_when_almost_all_of_it_is_free_again() -> None:
    more = (Gpu(0, "GPU-aa", "", (1 << 30) + (400 << 20)), Gpu(1, "GPU-bb", "", 0))
    assert memory_is_back(GPUS, more)
    assert not memory_is_back(GPUS, (Gpu(1, "GPU-bb", "", 600 << 20),))
    assert memory_is_back(GPUS, ())


def test_machine_without_a_driver_has_no_gpus_and_causes_no_error() -> None:
    reading = PendingReading()
    assert isinstance(reading.gpus(), tuple)
    reading.close()
    machine = Machine(dict(os.environ))
    assert machine.wait_for_memory(lambda: False) is not None or machine.gpus
    machine.close()


def test_changes_are_translated_into_environment_variables() -> None:
    made = [Change("allocator"), Change("growth"), Change("no-onednn"), Change("exclude-gpu", "GPU-aa")]
    environ = effects.environ_after(made, {"A": "1"}, GPUS)
    assert environ == {
        "A": "1",
        "TF_GPU_ALLOCATOR": "cuda_malloc_async",
        "TF_FORCE_GPU_ALLOW_GROWTH": "true",
        "TF_ENABLE_ONEDNN_OPTS": "0",
        "CUDA_VISIBLE_DEVICES": "GPU-bb",
    }
    assert effects.most_samples([Change("micro-batch", "32"), Change("micro-batch", "16")]) == 16
    assert effects.for_the_script([Change("no-xla"), Change("growth")]) == (("no-xla", ""),)


def test_every_ladder_change_is_implemented() -> None:
    rungs = {rung for ladder in LADDERS.values() for rung in ladder} | set(OPT_IN)
    in_environment = {"allocator", "growth", "no-onednn", "exclude-gpu"}
    known = in_environment | set(effects._IN_THE_SCRIPT) | {SAME, "micro-batch", "older-checkpoint"}
    assert rungs == known


def test_setting_a_checkpoint_aside_twice_causes_no_error(tmp_path: Path) -> None:
    (tmp_path / "step-000002-fit0").mkdir()
    effects.set_aside(tmp_path, "step-000002-fit0")
    effects.set_aside(tmp_path, "step-000002-fit0")  # already gone
    assert [path.name for path in tmp_path.iterdir()] == ["refused-step-000002-fit0"]


def test_conditions_are_derived_from_the_scripts_events(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / "checkpoints" / f"step-00000{number}-fit0-epoch0-step{number}").mkdir(parents=True)
    name = "step-000002-fit0-epoch0-step2"
    events = [
        Event.named("resumed", {"name": name, "kind": "exact"}),
        Event.named("fit-started", {"xla": True}),
        Event.named("oom", {"batch": 64, "micro_batch": None}),
    ]
    machine = Machine({"CUDA_VISIBLE_DEVICES": ""})
    there = conditions(machine, "", events, tmp_path, -11)
    machine.close()
    assert (there.xla, there.samples, there.resumed_from, there.older_checkpoints) == (True, 64, name, 1)
    assert there.segmentation_fault
    newer = conditions(machine, "", [*events, Event.named("checkpoint", {"name": "x"})], tmp_path, -6)
    assert (newer.resumed_from, newer.older_checkpoints) == ("", 0)


REFUSED = {"kind": "refused", "reason": "coupled", "fit": 0}
WHOLE = {"batch": 64, "micro_batch": 64, "fit": 0}


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([("probed", REFUSED), ("oom", WHOLE)], "coupled"),
        ([("oom", WHOLE), ("probed", REFUSED)], "coupled"),
        ([("probed", REFUSED), ("oom", {"batch": 64, "fit": 0})], "coupled"),
        ([("oom", WHOLE)], ""),
        ([("probed", {**REFUSED, "kind": "exact"}), ("oom", WHOLE)], ""),
        ([("probed", {**REFUSED, "kind": "exact"}), ("probed", REFUSED), ("oom", WHOLE)], "coupled"),
        ([("probed", REFUSED), ("probed", {**REFUSED, "kind": "exact"}), ("oom", WHOLE)], ""),
        # A different fit, call or batch layout: that verdict does not concern this step.
        ([("probed", REFUSED), ("oom", {**WHOLE, "fit": 1})], ""),
        ([("probed", {**REFUSED, "during": "evaluate"}), ("oom", WHOLE)], ""),
        ([("probed", REFUSED), ("oom", {**WHOLE, "micro_batch": 16})], ""),
        ([("probed", REFUSED), ("oom", WHOLE), ("recovered", {**WHOLE, "micro_batch": 16})], ""),
        ([("oom", WHOLE), ("fit-started", {"guard": "restart only", "reason": "X"})], "restart only, X"),
        ([("fit-started", {"guard": "restart only"}), ("fit-started", {"guard": "exact"}), ("oom", WHOLE)], ""),
    ],
)
def test_refused_split_of_the_failed_step_is_detected(events: list[tuple[str, dict[str, Any]]], expected: str) -> None:
    machine = Machine({"CUDA_VISIBLE_DEVICES": ""})
    there = conditions(machine, "", [Event.named(name, data) for name, data in events], None, 75)
    machine.close()
    assert there.refused == expected


def test_segmentation_fault_in_onednn_disables_it() -> None:
    machine = Machine({"CUDA_VISIBLE_DEVICES": ""})
    there = conditions(machine, "", [], None, -11)
    machine.close()
    second = climb("host-oom", 2, there, (), ())
    assert second is not None
    assert second.change == Change("no-onednn")


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, []),
        ({"TF_ENABLE_ONEDNN_OPTS": "0"}, ["no-onednn"]),
        ({"TF_ENABLE_ONEDNN_OPTS": "False"}, ["no-onednn"]),
        ({"TF_ENABLE_ONEDNN_OPTS": "1", "TF_GPU_ALLOCATOR": "cuda_malloc_async"}, ["allocator"]),
        ({"TF_FORCE_GPU_ALLOW_GROWTH": "true"}, ["growth"]),
        ({"TF_FORCE_GPU_ALLOW_GROWTH": "false"}, []),
    ],
)
def test_settings_in_the_users_environment_count_as_changes_in_effect(
    environ: dict[str, str], expected: list[str]
) -> None:
    machine = Machine({"CUDA_VISIBLE_DEVICES": "", **environ})
    there = conditions(machine, "", [], None, -11)
    half = conditions(machine, "", [Event.named("fit-started", {"precision": "float16"})], None, -11)
    machine.close()
    assert list(there.in_effect) == expected
    assert list(half.in_effect) == [*expected, "precision"]
    second = climb("host-oom", 2, there, (), ())
    assert (second is not None) == ("no-onednn" not in expected)


def in_python(code: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "PYTHONPATH": str(SOURCE)}
    return subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, timeout=60)


def test_child_reaped_by_the_kernel_causes_no_error() -> None:
    """The process that starts oomph may ignore SIGCHLD; then there is no child left to wait for or to kill."""
    code = (
        "import signal, time; signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
        "from oomph.gpu.memory_in_use import PendingReading\n"
        "asked, given_up = PendingReading(), PendingReading()\ntime.sleep(1)\n"
        "given_up.close()\nprint(isinstance(asked.gpus(), tuple))"
    )
    done = in_python(code)
    assert (done.stdout, done.stderr) == ("True\n", "")


def test_fork_also_closes_descriptors_beyond_the_limit() -> None:
    code = (
        "import os, resource\nfrom oomph.process.descriptors import close_all_but\n"
        "high, kept = os.dup2(0, 900), os.dup2(1, 800)\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))\n"
        "close_all_but(1, kept)\n"
        "os.write(1, ' '.join(sorted(os.listdir('/proc/self/fd'), key=int)).encode())"
    )
    done = in_python(code)
    assert done.stdout == "0 1 800", "0 is the listing's own"


def test_only_xids_that_require_a_reset_mark_a_gpu_as_broken():
    grave = {"RESET_GPU", "RESTART_BM", "RESTART_VM", "WORKFLOW_XID_48", "WORKFLOW_NVLINK_ERR"}
    assert {code for code, known in xid.catalogue().items() if known.immediate in grave} == kernel_log.BROKEN
    line = "NVRM: Xid (PCI:0000:3b:00): {}, pid=1234, name=python, Ch 00000008"
    told = {code: kernel_log.broken_bus([line.format(code)], ["00000000:3B:00.0"]) for code in (79, 92, 94, 95)}
    assert told == {79: "00000000:3B:00.0", 92: None, 94: None, 95: "00000000:3B:00.0"}
