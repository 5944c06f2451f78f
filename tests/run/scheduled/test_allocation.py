"""A process's place in a gang, as read from the environment of a scheduler."""

from __future__ import annotations

import json

import pytest

from oomph.errors import UsageError
from oomph.run.scheduled.allocation import Allocation, allocation_of, expanded

SLURM = {
    "SLURM_JOB_ID": "4711",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "2",
    "SLURM_NTASKS": "4",
    "SLURM_STEP_NODELIST": "gpu[08-09]",
    "SLURMD_NODENAME": "gpu09",
}


def _tf_config(kind: str, index: object, **cluster: list[str]) -> dict[str, str]:
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}})}


def test_task_of_srun_knows_its_rank_and_machines() -> None:
    mine = allocation_of(SLURM, None, "elsewhere")
    assert mine == Allocation("Slurm", "slurm-4711", 2, 4, "gpu09", ("gpu08", "gpu09"), starts_together=True)
    assert mine.who == "worker 2 on gpu09"


def test_tasks_of_the_step_count_and_not_those_of_the_job() -> None:
    assert allocation_of({**SLURM, "SLURM_STEP_NUM_TASKS": "3"}, None, "").workers == 3


def test_restarted_job_keeps_its_name() -> None:
    again = allocation_of({**SLURM, "SLURM_RESTART_COUNT": "3"}, None, "")
    assert again.job == allocation_of(SLURM, None, "").job


@pytest.mark.parametrize(
    ("nodes", "names"),
    [
        ("a", "a"),
        ("a,b", "a b"),
        ("gpu[01-03,7],login", "gpu01 gpu02 gpu03 gpu7 login"),
        ("r[1-2]n[1-2]-ib", "r1n1-ib r1n2-ib r2n1-ib r2n2-ib"),
        ("", ""),
        ("a[", "a"),
        ("a[x-y]", ""),
        ("a[1-999999999]", ""),
        ("a[1-4000][1-4000]", ""),
        ("a[99999999999999999999]", ""),
    ],
)
def test_list_of_nodes_is_expanded(nodes: str, names: str) -> None:
    assert expanded(nodes) == tuple(names.split())


def test_pod_of_an_indexed_job_is_called_like_its_job() -> None:
    mine = allocation_of({"JOB_COMPLETION_INDEX": "3"}, 8, "train-workers-0-3")
    assert (mine.job, mine.rank, mine.workers) == ("kubernetes-train-workers-0", 3, 8)
    assert allocation_of({"JOB_COMPLETION_INDEX": "3"}, 8, "renamed").job == ""


def test_empty_variable_counts_as_unset() -> None:
    assert allocation_of({"SLURM_JOB_ID": "", "JOB_COMPLETION_INDEX": "0"}, 2, "train-0").scheduler == "Kubernetes"


def test_place_that_another_launcher_has_chosen_is_kept() -> None:
    environ = {**SLURM, **_tf_config("worker", 1, chief=["a:1"], worker=["b:2", "c:3"])}
    mine = allocation_of(environ, None, "")
    assert (mine.rank, mine.workers, mine.host, mine.addresses) == (2, 3, "c", ("a:1", "b:2", "c:3"))
    assert allocation_of(_tf_config("chief", 0, chief=["a:1"], worker=["b:2"]), None, "").rank == 0


@pytest.mark.parametrize(
    ("environ", "workers", "said"),
    [
        ({}, None, "start it with srun or in an Indexed Job"),
        ({"SLURM_JOB_ID": "1", "SLURM_PROCID": "0", "SLURM_NTASKS": "2"}, None, "start it with srun"),
        ({**SLURM, "SLURM_PROCID": "9"}, None, "SLURM_PROCID should be a number from 0 to 3, and is 9"),
        ({**SLURM, "SLURM_NTASKS": "\x1b[31m"}, None, r"is \\x1b\[31m"),
        ({**SLURM, "SLURM_JOB_ID": "../../etc"}, None, "SLURM_JOB_ID should be a number"),
        (SLURM, 3, "--workers 3: Slurm has started 4 workers"),
        ({"JOB_COMPLETION_INDEX": "0"}, None, "add --workers with the Job's completions"),
        ({"JOB_COMPLETION_INDEX": "2"}, 2, "JOB_COMPLETION_INDEX should be a number from 0 to 1, and is 2"),
        ({"TF_CONFIG": "{"}, None, "TF_CONFIG is set, but describes no cluster"),
        ({"TF_CONFIG": "[" * 100_000}, None, "TF_CONFIG is set, but describes no cluster"),
        (_tf_config("worker", 5, worker=["a:1"]), None, "TF_CONFIG names worker 5, but lists 1 worker"),
        (_tf_config("worker", True, worker=["a:1", "b:1"]), None, "TF_CONFIG is set, but describes no cluster"),
        (_tf_config("worker", 0, worker=["a:1", "a:1"]), None, "lists a:1 twice: each worker needs its own address"),
        (_tf_config("worker", 0, worker=["a", "b:1"]), None, "lists a, which has no port from 1 to 65535"),
        (_tf_config("worker", 0, worker=["a:99999999", "b:1"]), None, "lists a:99999999, which has no port from 1"),
        (_tf_config("ps", 0, ps=["a:1"], worker=["b:1"]), None, "supervises this process alone"),
        (_tf_config("evaluator", 0, worker=["b:1"]), None, "supervises this process alone"),
    ],
)
def test_bad_place_is_refused_in_one_sentence(environ: dict[str, str], workers: int | None, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        allocation_of(environ, workers, "host")
