"""Faults are placed on the host and, where it is known which, on the GPU that had them; those of scripts are not."""

from __future__ import annotations

import pytest
from fleets import HARDWARE, add_attempt, run_on, write

from oomph.explain.catalogue.catalogue import load
from oomph.journal.events import Diagnosed, FindingMade, GradientsDiffer, KernelLogRead
from oomph.protocol.handover import mark_fired
from oomph.run.fleet.placed_run import machine_faults, placed_run

ILLEGAL = Diagnosed(fault="illegal-memory-access", code="GPU301")


def xid(code: int, bus: str) -> KernelLogRead:
    return KernelLogRead(lines=[line(code, bus)])


def line(code: int, bus: str) -> str:
    return f"NVRM: Xid (PCI:{bus}): {code}, pid=7, name=python, it failed"


BROKEN_AND_STOPPED = KernelLogRead(lines=[line(79, "0000:12:00"), line(45, "0000:11:00")])
"""One GPU has fallen off the bus, whereupon the driver stops what runs on another."""


def finding(fault: str, subject: str, severity: str = "critical") -> FindingMade:
    return FindingMade(fault=fault, subject=subject, severity=severity, kind="xid 79", message="it failed")


def placed(run):
    return [(fault.name, sorted(fault.gpus)) for attempt in placed_run(run).attempts for fault in attempt.faults]


@pytest.mark.parametrize(
    "fault",
    ["shape-mismatch", "nan-loss", "device-oom", "unrelated", "preempted", "worker-lost", "memory-leak", "SIGKILL"],
)
def test_fault_of_the_script_or_of_others_is_not_the_machines(tmp_path, fault):
    run = run_on(tmp_path, "a", [Diagnosed(fault=fault)], gpus=1)
    assert placed(run) == []
    assert placed_run(run).attempts[0].host == "node-1", "but the run counts as one without a fault"


def test_every_page_about_hardware_is_of_the_machine():
    assert {fault.name for fault in load() if fault.domain == "hardware"} < machine_faults().keys()
    assert (
        not {fault.name for fault in load() if fault.domain in ("data", "python", "compile")} & machine_faults().keys()
    )


@pytest.mark.parametrize(
    ("gpus", "facts", "expected"),
    [
        (1, [HARDWARE], [("hardware-fault", ["GPU-node-1-0"])]),
        (4, [HARDWARE], [("hardware-fault", [])]),
        (4, [HARDWARE, xid(79, "0000:12:00")], [("hardware-fault", ["GPU-node-1-2"])]),
        (4, [BROKEN_AND_STOPPED, HARDWARE], [("hardware-fault", ["GPU-node-1-2"])]),
        (4, [ILLEGAL, xid(31, "0000:13:00")], [("illegal-memory-access", ["GPU-node-1-3"])]),
        (4, [HARDWARE, xid(79, "0000:99:00")], [("hardware-fault", [])]),
        (1, [Diagnosed(fault="killed")], [("killed", [])]),
        (2, [finding("thermal-throttle", "GPU 1 (NVIDIA H100)")], [("thermal-throttle", ["GPU-node-1-1"])]),
        (2, [finding("hardware-fault", "GPU 1 (NVIDIA H100)"), HARDWARE], [("hardware-fault", ["GPU-node-1-1"])]),
        (2, [finding("hardware-fault", "GPU 1 (NVIDIA H100)", "notice")], []),
        (2, [finding("host-oom", "host memory")], []),
        (0, [HARDWARE], [("hardware-fault", [])]),
    ],
)
def test_fault_is_placed_on_the_gpu_that_the_evidence_names(tmp_path, gpus, facts, expected):
    assert placed(run_on(tmp_path, "a", facts, gpus=gpus)) == expected


def test_wrong_gradients_name_the_gpu_by_its_place_in_tensorflow(tmp_path):
    run = run_on(tmp_path, "a", [HARDWARE], gpus=3)
    differ = GradientsDiffer(device="GPU:2 (NVIDIA H100)", variable="w")
    write(run / "journal" / "1-0-script.jsonl", 1, 0, "script", [differ])
    assert placed(run) == [("hardware-fault", ["GPU-node-1-2"])]


def test_each_attempt_and_rank_is_placed_where_it_ran(tmp_path):
    run = run_on(tmp_path, "a", [HARDWARE], host="node-1")
    add_attempt(run, 2, host="node-2")
    add_attempt(run, 2, HARDWARE, host="node-3", rank=1)
    assert [(a.host, len(a.faults)) for a in placed_run(run).attempts] == [("node-1", 1), ("node-2", 0), ("node-3", 1)]


def test_injected_fault_of_a_rehearsal_is_not_the_machines(tmp_path):
    run = run_on(tmp_path, "a", [HARDWARE], gpus=1)
    mark_fired(run)
    assert placed(run) == []
