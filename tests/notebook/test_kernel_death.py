"""The cause of a kernel's death, inferred from made-up traces, and the lines that report it: pure functions."""

from __future__ import annotations

import signal
from dataclasses import replace

import pytest

from oomph.notebook.evidence.inferred_death import (
    Cause,
    InferredDeath,
    Traces,
    death_of,
    fatal_signal,
    in_lines,
    is_worth_telling,
)
from oomph.notebook.evidence.kernel_board import NO_CELL, KernelSample, KernelState
from oomph.process.process_identity import ProcessIdentity
from oomph.protocol.progress import Progress

GIB, SECOND = 1 << 30, 10**9
DEAD = ProcessIdentity(4711, "lab", "boot-1", "900")
ROOMY = KernelSample(500 * SECOND, 10**18, resident=GIB, used=2 * GIB, total=16 * GIB, oom_kills=3, group=7)
FULL = ROOMY._replace(used=15 * GIB)
QUIET = Traces(
    KernelState(1, DEAD, ROOMY, cell=4, ended=False), ProcessIdentity(4900, "lab", "boot-1", "1200"), 3, group=7
)
STACK = """Fatal Python error: Segmentation fault

Thread 0x00007f0c2c9fd6c0 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 324 in wait

Current thread 0x00007f0c2d0fe740 (most recent call first):
  File "/usr/lib/python3.11/ctypes/__init__.py", line 519 in string_at
  File "/tmp/ipykernel_4711/123.py", line 2 in <module>
"""


def with_sample(sample: KernelSample, **others: object) -> Traces:
    return replace(QUIET, state=QUIET.state._replace(sample=sample), **others)


@pytest.mark.parametrize(
    ("traces", "expected"),
    [
        pytest.param(QUIET, Cause.UNKNOWN, id="nothing"),
        pytest.param(with_sample(FULL), Cause.MEMORY_WAS_SHORT, id="memory nearly full"),
        pytest.param(with_sample(FULL, oom_kills=4), Cause.PROBABLY_OOM_KILLED, id="full, and a kill counted"),
        pytest.param(replace(QUIET, oom_kills=4), Cause.PERHAPS_OOM_KILLED, id="a kill counted, maybe of a child"),
        pytest.param(replace(QUIET, oom_kills=4, group=8), Cause.UNKNOWN, id="another group's counter"),
        pytest.param(replace(QUIET, oom_kills=0), Cause.UNKNOWN, id="a counter that went back"),
        pytest.param(replace(QUIET, oom_kills=None), Cause.UNKNOWN, id="no counter now"),
        pytest.param(with_sample(ROOMY._replace(oom_kills=None)), Cause.UNKNOWN, id="no counter then"),
        pytest.param(with_sample(ROOMY._replace(total=None)), Cause.UNKNOWN, id="no limit known"),
        pytest.param(replace(QUIET, killed_at_ns=(501 * SECOND,)), Cause.OOM_KILLED, id="named by the kernel log"),
        pytest.param(replace(QUIET, killed_at_ns=(9 * SECOND,)), Cause.UNKNOWN, id="the PID's earlier process"),
        pytest.param(replace(QUIET, killed_at_ns=(9000 * SECOND,)), Cause.UNKNOWN, id="the PID's later process"),
        pytest.param(replace(QUIET, stack=STACK), Cause.CRASHED, id="a stack"),
        pytest.param(with_sample(FULL, stack=STACK, oom_kills=4), Cause.CRASHED, id="a stack outweighs a counter"),
        pytest.param(replace(QUIET, stack="Timeout (0:00:10)!\n"), Cause.UNKNOWN, id="a stack that is no crash"),
        pytest.param(
            replace(QUIET, here=QUIET.here._replace(boot="boot-2"), oom_kills=4, killed_at_ns=(501 * SECOND,)),
            Cause.RESTARTED_MACHINE,
            id="another boot, whose counters and clocks say nothing",
        ),
        pytest.param(replace(QUIET, here=QUIET.here._replace(host="b"), oom_kills=9), Cause.OTHER_MACHINE, id="moved"),
    ],
)
def test_the_cause_is_inferred_from_the_evidence(traces, expected):
    assert death_of(traces).cause is expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("Segmentation fault", signal.SIGSEGV),
        ("Aborted", signal.SIGABRT),
        ("Bus error", signal.SIGBUS),
        ("Floating-point exception", signal.SIGFPE),
        ("Illegal instruction", signal.SIGILL),
        ("something new", 0),
    ],
)
def test_the_signal_is_read_from_faulthandlers_message(words, expected):
    assert fatal_signal(f"Fatal Python error: {words}\n\nThread 0x1 (most recent call first):\n") == expected


STOOD = Progress(attempt=1, fit=0, epoch=2, step=40, steps=90, saved=80)


def lines(traces: Traces, fault: str = "") -> list[str]:
    return in_lines(traces, death_of(traces), fault, 12.0)


def test_a_death_in_training_is_reported_in_three_lines():
    training = with_sample(FULL, killed_at_ns=(500 * SECOND,), progress=STOOD, in_training=True)
    assert lines(training, "host-oom, oomph explain OOM110") == [
        "the last kernel (process 4711, last seen 12 s ago, in cell [4]) was killed because memory ran out, as the "
        "kernel log says (15.0 GiB of 16.0 GiB in use, 1.0 GiB by the kernel): host-oom, oomph explain OOM110",
        "its training was at fit 1, epoch 3, step 41 (90 steps done, 80 saved)",
        "run the cells again: the training resumes from its last checkpoint; to list the cells, use %oomph again",
    ]


def test_only_proof_is_worded_as_certain():
    proven = lines(with_sample(FULL, killed_at_ns=(500 * SECOND,)))[0]
    counted = lines(with_sample(FULL, oom_kills=4))[0]
    perhaps = lines(replace(QUIET, oom_kills=4))[0]
    assert "was killed because memory ran out" in proven
    assert "was probably killed because memory ran out" in counted
    assert "may have been killed because memory ran out" in perhaps
    assert "the OOM kill counter went up, for it or another process" in perhaps


def test_an_unexplained_death_is_reported_without_a_cause():
    first, *_ = lines(QUIET)
    assert first.startswith("nothing shows what killed the last kernel (process 4711")
    assert "no crash, and no shortage of memory (2.0 GiB of 16.0 GiB in use, 1.0 GiB by the kernel)" in first


def test_report_of_a_crash_names_the_signal_and_the_crashed_threads_innermost_call():
    first, *_ = lines(replace(QUIET, stack=STACK), "segmentation-fault, oomph explain CRS202")
    assert first.endswith(
        "crashed with SIGSEGV at __init__.py:519 in string_at: segmentation-fault, oomph explain CRS202"
    )


@pytest.mark.parametrize("cause", Cause)
@pytest.mark.parametrize("progress", [None, STOOD, STOOD._replace(saved=0), STOOD._replace(fit=-1)])
@pytest.mark.parametrize("in_training", [True, False])
def test_every_cause_is_reported_in_one_to_three_lines(cause, progress, in_training):
    traces = replace(QUIET, progress=progress, in_training=in_training)
    told = in_lines(traces, InferredDeath(cause, signal.SIGSEGV), "", 5.0)
    assert 1 <= len(told) <= 3
    assert all(line and "None" not in line and "\n" not in line for line in told)


def test_advice_without_a_checkpoint_says_that_the_training_starts_over():
    *_, last = lines(replace(QUIET, progress=STOOD._replace(saved=0), in_training=True))
    assert last == (
        "run the cells again: the training starts from the beginning, since no checkpoint was saved; "
        "to list the cells, use %oomph again"
    )


def test_advice_for_a_program_without_cells_is_to_start_it_again():
    told = lines(replace(QUIET, has_cells=False, progress=STOOD, in_training=True))
    assert told[0].startswith("nothing shows what killed the program (process 4711")
    assert told[2] == "start the program again: the training resumes from its last checkpoint"


def test_a_death_outside_cells_and_training_without_a_fault_is_not_reported():
    idle = replace(QUIET, state=QUIET.state._replace(cell=NO_CELL))
    assert not is_worth_telling(idle, death_of(idle))
    assert is_worth_telling(QUIET, death_of(QUIET))
    assert is_worth_telling(replace(idle, in_training=True), death_of(idle))
    crashed = replace(idle, stack=STACK)
    assert is_worth_telling(crashed, death_of(crashed))
