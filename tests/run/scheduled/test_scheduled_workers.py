"""Entire `oomph run --engine env` processes with workers of plain Python: who ends how, what is resumed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from oomph.cli import main
from oomph.journal.events import WorkerFailed
from oomph.journal.journal import facts, read_journal

LIMIT = 60
_WORKER = """
import json, os, signal, sys, time
from pathlib import Path

config = json.loads(os.environ["TF_CONFIG"])
rank, workers = config["task"]["index"], len(config["cluster"]["worker"])
attempt = json.loads(os.environ["OOMPH_HANDOVER"])["attempt"]

def together(name="start"):
    Path(f"{name}-{attempt}-{rank}").write_text(f"{os.getpid()}\\n")
    while not all(os.path.exists(f"{name}-{attempt}-{each}") for each in range(workers)):
        time.sleep(0.01)

def lost():
    print("Collective ops is aborted by: Socket closed", file=sys.stderr)
    os._exit(1)

together()
"""


class Ended(NamedTuple):
    """The end of one `oomph run` of a gang."""

    code: int
    out: str
    err: str


def _place(rank: int, workers: int) -> dict[str, str]:
    return {
        "SLURM_JOB_ID": "42",
        "SLURM_STEP_ID": "0",
        "SLURM_PROCID": str(rank),
        "SLURM_STEP_NUM_TASKS": str(workers),
        "SLURM_STEP_NODELIST": "127.0.0.[1-2]",
        "SLURMD_NODENAME": f"127.0.0.{rank + 1}",
        "OOMPH_TEST_GATHERING": "20",
    }


def _start(
    work: Any, rank: int, workers: int, *options: str, name: str = "train.py", **extra: str
) -> subprocess.Popen[bytes]:
    environ = work.environ(**{**_place(rank, workers), **extra})
    process: subprocess.Popen[bytes] = work.start(
        "--engine", "env", "--no-guard", *options, name, env={k: v for k, v in environ.items() if v}
    )
    return process


def _ended(processes: list[subprocess.Popen[bytes]]) -> list[Ended]:
    texts = [process.communicate(timeout=LIMIT) for process in processes]
    return [
        Ended(each.returncode, out.decode(), err.decode()) for each, (out, err) in zip(processes, texts, strict=True)
    ]


def _all(work: Any, script: str, *options: str, workers: int = 2, **extra: str) -> list[Ended]:
    work.script(_WORKER + script)
    return _ended([_start(work, rank, workers, "--resume", *options, **extra) for rank in range(workers)])


def _check_explained(work: Any, rank: int, capsys: pytest.CaptureFixture[str]) -> None:
    """The run, and the folder of each worker, name the worker that failed and resume the run."""
    failed = f"worker {rank} on 127.0.0.{rank + 1}"
    for folder in (work.run_dir, work.run_dir / "workers" / "1"):
        assert main(["explain", "--full", str(folder)]) == 0
        told = " ".join(capsys.readouterr().out.split())
        assert f"since {failed} was killed by SIGKILL" in told
        assert f"shown by {failed}: death by signal 9" in told
        assert "the run has not finished: all workers have to start again" in told
        assert f"--resume={work.run_dir} --engine env" in told
        assert "incomplete" not in told
        assert "started attempt 2" not in told


def _causes(work: Any) -> list[tuple[int, str]]:
    return [(each.worker, each.fault) for each in facts(read_journal(work.run_dir), WorkerFailed) if each.cause]


def test_workers_of_a_job_form_one_cluster_in_a_folder_named_after_it(work):
    ends = _all(work, "print(os.environ['TF_CONFIG'], os.environ['OOMPH_HANDOVER'], sep='\\n')", workers=3)
    assert [end.code for end in ends] == [0, 0, 0], ends
    configs, handovers = zip(*(map(json.loads, end.out.splitlines()) for end in ends), strict=True)
    assert [(each["rank"], each["workers"]) for each in handovers] == [(rank, 3) for rank in range(3)]
    (start,) = {each["start"] for each in handovers}
    assert start == json.loads((work.run_dir / "gang/0.json").read_text())["call"]  # differs in the next start
    assert [each["task"] for each in configs] == [{"type": "worker", "index": rank} for rank in range(3)]
    (addresses,) = {tuple(each["cluster"]["worker"]) for each in configs}
    assert [each.partition(":")[0] for each in addresses] == ["127.0.0.1", "127.0.0.2", "127.0.0.3"]
    assert work.run_dir.name == "slurm-42-train"
    assert work.document("run.json")["workers"] == 3
    assert (work.run_dir / "workers" / "2" / "journal").is_dir()


@pytest.mark.parametrize("rank", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_killed_worker_sends_all_back_to_the_scheduler_and_the_next_start_resumes(work, rank, alive, capsys):
    script = (
        f"if attempt == 1 and rank == {rank}: os.kill(os.getpid(), signal.SIGKILL)\nif attempt == 1: time.sleep(50)"
    )
    ends = _all(work, script)
    assert [end.code for end in ends] == [75, 75], ends
    failed = f"worker {rank} on 127.0.0.{rank + 1}"
    assert (
        f"oomph: {failed} ended by SIGKILL (killed): all workers have to start again (exit code 75)" in ends[rank].err
    )
    said = f"ended with exit code 75, since {failed} was killed by SIGKILL"
    assert all(said in end.err for end in ends), ends
    _check_explained(work, rank, capsys)
    assert f"worker {rank} on 127.0.0.{rank + 1} has failed: ending this worker" in ends[1 - rank].err
    assert f"worker {rank} on 127.0.0.{rank + 1} ended by SIGKILL (killed)" in ends[1 - rank].err
    assert _causes(work) == [(rank, "killed")]
    assert not any(alive(int(path.read_text())) for path in work.folder.glob("start-1-?"))
    ends = _all(work, script, SLURM_RESTART_COUNT="1")
    assert [end.code for end in ends] == [0, 0], ends
    assert work.document("summary.json")["attempts"] == 2


def test_error_of_the_script_ends_all_for_good(work):
    ends = _all(work, "if rank == 1: raise ValueError('its own')\nif rank == 0: time.sleep(50)")
    assert [end.code for end in ends] == [93, 1], ends
    assert "worker 1 on 127.0.0.2 ended with exit code 1" in ends[0].err
    assert "no worker should start again (exit code 93)" in ends[0].err
    assert not any("Traceback" in end.err for end in ends[:1])


def test_consequence_that_comes_first_waits_for_its_cause(work):
    ends = _all(work, "if rank == 0: lost()\ntime.sleep(0.5)\nraise ValueError('its own')")
    assert [end.code for end in ends] == [93, 1], ends
    assert _causes(work)[0][0] == 1


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGUSR1])
def test_scheduler_that_ends_all_gets_them_back(work, wait_until, signum):
    work.script(_WORKER + "time.sleep(50)")
    processes = [_start(work, rank, 2, "--resume") for rank in range(2)]
    wait_until(lambda: len(list(work.folder.glob("start-1-?"))) == 2)
    for process in processes:
        process.send_signal(signum)
    ends = _ended(processes)
    assert [end.code for end in ends] == [75, 75], ends


def test_worker_that_has_finished_is_not_finished_before_the_others_are(work):
    script = "if rank == 1 and attempt == 1: time.sleep(0.5); os.kill(os.getpid(), signal.SIGKILL)"
    ends = _all(work, script)
    assert [end.code for end in ends] == [75, 75], ends
    assert "after this one had finished" in ends[0].err
    assert [end.code for end in _all(work, script)] == [0, 0]
    assert work.document("summary.json")["attempts"] == 2


# What oomph's TensorFlow code does in a real script: report that a step runs. `wait` counts as a call of TensorFlow's.
_STEPS = """
from oomph.protocol.handover import Handover
from oomph.protocol.progress import Beat, Phase, Power

exec(compile("def wait(): time.sleep(50)", "/site-packages/tensorflow/python/collective.py", "exec"))
os.write(Handover.read().beat_fd, Beat(Phase.STEP, Power.NONE, os.getpid(), 0, time.monotonic_ns(), 0).pack())

"""


@pytest.mark.slow
def test_hang_is_blamed_on_the_worker_for_which_the_other_waits(work):
    script = _STEPS + "if rank == 1:\n    time.sleep(50)  # here\nwait()"
    ends = _all(work, script, OOMPH_TEST_HANG_FLOOR="3")
    assert [end.code for end in ends] == [75, 75], ends
    assert _causes(work) == [(1, "hang")]
    line = 1 + (work.folder / "train.py").read_text().splitlines().index("    time.sleep(50)  # here")
    assert f"train.py:{line}" in ends[1].err


def test_checkpoints_that_not_all_workers_have_are_set_aside_at_the_next_start(work):
    script = (
        "run = Path(json.loads(os.environ['OOMPH_HANDOVER'])['run_dir']) / 'checkpoints'\n"
        "for step in (10, 20, 30)[: 3 - rank] if attempt == 1 else ():\n"
        "    (run / f'step-0000{step}-fit0-epoch0-step{step}').mkdir(parents=True)\n"
        "together('saved')\nif attempt == 1 and rank == 1: os.kill(os.getpid(), signal.SIGKILL)\n"
        "if attempt == 1: time.sleep(50)\nprint(sorted(os.listdir(run)))"
    )
    assert [end.code for end in _all(work, script)] == [75, 75]
    ends = _all(work, script)
    assert [end.code for end in ends] == [0, 0], ends
    kept = ["step-000010-fit0-epoch0-step10", "step-000020-fit0-epoch0-step20"]
    assert [end.out for end in ends] == [f"{['refused-step-000030-fit0-epoch0-step30', *kept]}\n", f"{kept}\n"]


def test_cluster_of_another_launcher_stays(work):
    cluster = {"worker": ["127.0.0.1:7001", "127.0.0.1:7002"]}
    configs = [json.dumps({"cluster": cluster, "task": {"type": "worker", "index": rank}}) for rank in range(2)]
    work.script(_WORKER + "print(os.environ['TF_CONFIG'])")
    ends = _ended([_start(work, rank, 2, "--run-dir", "shared", TF_CONFIG=configs[rank]) for rank in range(2)])
    assert [(end.code, end.out.strip()) for end in ends] == [(0, config) for config in configs], ends
    nameless = _ended([_start(work, 0, 2, TF_CONFIG=configs[0])])
    assert nameless[0].code == 2
    assert "does not know the name of its job: name the run directory with --run-dir" in nameless[0].err


def test_pods_of_an_indexed_job_form_one_cluster(work):
    work.script(_WORKER + "print(os.environ['TF_CONFIG'])")
    outside = {name: "" for name in _place(0, 2) if name.startswith("SLURM_")}
    options = ("--workers=2", "--run-dir=shared")
    ends = _ended([_start(work, rank, 2, *options, **outside, JOB_COMPLETION_INDEX=str(rank)) for rank in range(2)])
    assert [end.code for end in ends] == [0, 0], ends
    assert [json.loads(end.out)["task"]["index"] for end in ends] == [0, 1]


def test_single_task_is_an_ordinary_run_that_restarts_itself(work):
    work.script(
        "import json, os\nprint('TF_CONFIG' in os.environ, flush=True)\n"
        "if json.loads(os.environ['OOMPH_HANDOVER'])['attempt'] == 1: os.kill(os.getpid(), 9)"
    )
    (end,) = _ended([_start(work, 0, 1)])
    assert (end.code, end.out) == (0, "False\nFalse\n"), end


def test_run_is_resumed_with_as_many_workers_as_it_has(work):
    script = "if attempt == 1: os.kill(os.getpid(), signal.SIGKILL)"
    assert [end.code for end in _all(work, script)] == [75, 75]
    end = _all(work, script, workers=3, OOMPH_TEST_GATHERING="2")[0]
    assert end.code == 2
    assert "is a run of 2 workers, each with its own part of the data: resume it with as many" in end.err


def test_each_worker_refuses_to_resume_a_run_of_another_script(work):
    script = "if attempt == 1: os.kill(os.getpid(), signal.SIGKILL)"
    assert [end.code for end in _all(work, script)] == [75, 75]
    shared = f"--run-dir={work.run_dir}"
    work.script("print('other')", "other.py")
    end = _ended([_start(work, 0, 2, "--resume", shared, name="other.py")])[0]
    assert (end.code, end.out) == (2, "")
    assert f"oomph: worker 0 on 127.0.0.1: {work.run_dir} is a run of train.py, not of other.py" in end.err
    names = ["train.py", "other.py"]
    ends = _ended([_start(work, rank, 2, "--resume", shared, name=names[rank]) for rank in range(2)])
    said = f"{work.run_dir}/workers/1 is a run of train.py, not of other.py"
    assert [(end.code, end.out) for end in ends] == [(2, ""), (2, "")]
    assert f"oomph: worker 1 on 127.0.0.2 has ended: {said}\n" in ends[0].err
    assert f"oomph: worker 1 on 127.0.0.2: {said}\n" in ends[1].err


def test_second_task_of_a_rank_names_rank_and_machine(work, wait_until):
    work.script(_WORKER)
    first = _start(work, 0, 2)
    wait_until(lambda: list(work.folder.glob(".oomph/runs/*/gang/0.json")))
    (second,) = _ended([_start(work, 0, 2, "--resume")])
    assert second.code == 2
    said = f"worker 0 on 127.0.0.1: {work.run_dir} is in use by another oomph run, process {first.pid}"
    assert said in second.err
    first.kill()


def test_folders_that_are_not_shared_end_the_job_and_name_worker_and_machine(work, tmp_path):
    work.script(_WORKER)
    processes = [
        _start(work, rank, 2, f"--run-dir={tmp_path / f'node{rank}'}", OOMPH_TEST_GATHERING="1") for rank in range(2)
    ]
    ends = _ended(processes)
    assert [end.code for end in ends] == [2, 2], ends
    for rank in range(2):
        said = (
            f"oomph: worker {rank} on 127.0.0.{rank + 1} has waited 1 s in {tmp_path / f'node{rank}'} and sees no file"
        )
        assert said in ends[rank].err
        assert f"worker {1 - rank} (127.0.0.{2 - rank})" in ends[rank].err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--engine", "env", "train.py"], "start it with srun or in an Indexed Job"),
        (["--engine", "env", "train.ipynb"], "a notebook cannot be saved by several"),
        (["--engine", "slurm", "train.py"], "invalid choice: 'slurm'"),
    ],
)
def test_impossible_engine_is_refused_in_one_sentence(work, words, said):
    work.script("print('hello')")
    (work.folder / "train.ipynb").write_text('{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}')
    outside = {name: value for name, value in work.environ().items() if not name.startswith(("SLURM_", "JOB_"))}
    result = work.run(*words, env=outside)
    assert result.returncode == 2
    assert said in result.stderr.decode()
    assert not os.path.exists(Path(work.folder) / ".oomph")


@pytest.mark.parametrize(("rank", "signum"), [(0, signal.SIGTERM), (1, signal.SIGUSR1)])
def test_signal_while_a_worker_waits_for_the_others_asks_for_another_start(
    work: Any, rank: int, signum: signal.Signals
) -> None:
    work.script(_WORKER)
    process = _start(work, rank, 2, "--run-dir", "waits")
    try:
        assert process.stderr is not None
        said = b""
        while b"waits" not in said and (line := process.stderr.readline()):
            said += line
        process.send_signal(signum)
        (ended,) = _ended([process])
    finally:
        process.kill()
    assert ended.code == 75
    assert f"worker {rank} on 127.0.0.{rank + 1} was stopped by {signum.name} while it waited" in ended.err
