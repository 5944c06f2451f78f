"""Logs of several workers: which one failed, with what, and what merely follows from it."""

from __future__ import annotations

import pytest

from oomph.explain.diagnose import diagnose_log

OP = "Op at device /job:worker/replica:0/task:1/device:CPU:0 expected shape [8,24] but another member in the group"
MISMATCH = f"Shape mismatch in the collective instance 100. {OP} expected shape [8,16]."
OTHER_TYPES = "Collective instance 100 expected type 1 and data_type 1 but got type 1 and data_type 2"
LOST = "Collective ops is aborted by: recvmsg:Connection reset by peer"
CLOSING = ["oomph: what was done  1 restart", "oomph: next           oomph explain runs/a"]


def roles(*lines: str) -> list[tuple[str, str]]:
    found = diagnose_log("\n".join(lines).encode())
    return [(each.name, each.role) for each in found if each.confidence > 0.5]


@pytest.mark.parametrize(("message", "fault"), [(MISMATCH, "shape-mismatch"), (OTHER_TYPES, "dtype-mismatch")])
def test_workers_with_different_models_have_lost_nobody(message: str, fault: str) -> None:
    text = (
        f"tensorflow.python.framework.errors_impl.InvalidArgumentError: Collective ops is aborted by: {message}\n"
        "Additional GRPC error information from remote target /job:worker/replica:0/task:0 while calling"
        " /tensorflow.WorkerService/CompleteInstance:\n"
        f':UNKNOWN:Error received from peer  {{grpc_status:3, grpc_message:"{message}"}}\n'
        "The error could be from a previous operation. Restart your program to reset. [Op:CollectiveBcastRecv]\n"
    )
    found = diagnose_log(text.encode())
    assert (found[0].name, found[0].role) == (fault, "cause")
    assert "the same model" in found[0].remedies[0].text
    assert all(each.name != "worker-lost" or each.role == "consequence" for each in found)


def test_worker_that_oomph_saw_killed_is_the_cause_of_lost_connections() -> None:
    log = roles(
        "oomph: running loop.py as 2 workers with python, run directory runs/a",
        LOST,
        "oomph: worker 1 was killed by SIGKILL in a training loop (19 steps done, 0 saved); starting attempt 2",
        "oomph: what happened  killed once",
        *CLOSING,
    )
    assert log == [("killed", "cause"), ("worker-lost", "consequence")]


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("worker 1 on vm ended by SIGKILL (killed): all workers have to start again (exit code 75)", "killed"),
        ("worker 3 on n1 ended with exit code 1 (device-oom), which another start would repeat: no worker should start"
         " again (exit code 93)", "device-oom"),
    ],
)  # fmt: skip
def test_fault_of_another_worker_is_found_in_the_log_of_one_that_followed(line: str, fault: str) -> None:
    assert roles("oomph: running hi.py as worker 0 of 2 with python, run directory r", f"oomph: {line}") == [
        (fault, "cause")
    ]


def test_error_of_the_script_after_a_recovered_fault_is_the_cause() -> None:
    found = diagnose_log(
        "\n".join(
            [
                "oomph: running train.py with python, run directory runs/a",
                "RESOURCE_EXHAUSTED: OOM when allocating tensor with shape[2,3] and type float on /device:GPU:0 by"
                " allocator GPU_0_bfc",
                "oomph: recovered in 11.9 s: batch 256 continues as micro-batches of 16 (exact)",
                "W0 op_kernel.cc:1858] RESOURCE_EXHAUSTED: OOM when allocating tensor with shape[2,3] and type float on"
                " /device:GPU:0 by allocator GPU_0_bfc",
                "Traceback (most recent call last):",
                '  File "train.py", line 10, in <module>',
                "TypeError: <lambda>() got an unexpected keyword argument 'logs'",
                "oomph: what happened  device-oom once, an error in the script itself once",
                *CLOSING,
            ]
        ).encode()
    )
    assert (found[0].name, found[0].role) == ("unrelated", "cause")
    assert all("TypeError" not in fact.text for each in found[1:2] for fact in each.evidence)
