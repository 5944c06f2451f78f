"""Entire `oomph run --workers N` invocations with workers of plain Python: who ends, who is blamed, who is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from oomph.cli import main
from oomph.journal.events import AttemptEnded, Hung, WorkerFailed
from oomph.journal.journal import facts, read_journal

LIMIT = 60
# A worker of one attempt. `together` returns once all workers have called it, as a collective does.
_WORKER = """
import json, os, signal, socket, sys, time
from pathlib import Path

cluster = json.loads(os.environ["TF_CONFIG"])
rank, workers = cluster["task"]["index"], len(cluster["cluster"]["worker"])
attempt = json.loads(os.environ["OOMPH_HANDOVER"])["attempt"]

def note(name, text="x"):
    Path(f"{name}.partial-{rank}").write_text(str(text))
    os.rename(f"{name}.partial-{rank}", name)

def together(name="start"):
    note(f"{name}-{attempt}-{rank}", os.getpid())
    while not all(os.path.exists(f"{name}-{attempt}-{each}") for each in range(workers)):
        time.sleep(0.005)

def killed(signum=signal.SIGKILL):
    note("at", time.time())
    os.kill(os.getpid(), signum)
    time.sleep(50)

"""


def _pids(work: Any, attempt: int = 1, name: str = "start") -> list[int]:
    return [int(path.read_text()) for path in sorted(work.folder.glob(f"{name}-{attempt}-?"))]


def _causes(work: Any) -> list[tuple[int, str]]:
    return [(each.worker, each.fault) for each in facts(read_journal(work.run_dir), WorkerFailed) if each.cause]


def _run(work: Any, script: str, workers: int = 2, *options: str, **more: Any) -> Any:
    work.script(_WORKER + script)
    return work.run("--no-guard", "--workers", str(workers), *options, "train.py", **more)


def test_each_worker_knows_its_index_and_all_know_the_same_addresses(work):
    result = _run(work, "together()\nnote(f'config-{rank}', os.environ['TF_CONFIG'])", 3)
    assert result.returncode == 0, result.stderr
    configs = [json.loads((work.folder / f"config-{rank}").read_text()) for rank in range(3)]
    assert [each["task"] for each in configs] == [{"type": "worker", "index": rank} for rank in range(3)]
    (addresses,) = {tuple(each["cluster"]["worker"]) for each in configs}
    assert len(set(addresses)) == 3


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_killed_worker_makes_all_start_again_on_new_ports(work, rank, alive):
    result = _run(
        work,
        f"together()\nnote(f'ports-{{attempt}}', cluster['cluster'])\nif attempt > 1: sys.exit()\n"
        f"if rank == {rank}: killed()\ntime.sleep(50)",
        3,
    )
    assert result.returncode == 0, result.stderr
    assert f"oomph: worker {rank} was killed by SIGKILL; starting attempt 2".encode() in result.stderr
    assert _causes(work) == [(rank, "killed")]
    assert (work.folder / "ports-1").read_text() != (work.folder / "ports-2").read_text()
    assert not any(map(alive, _pids(work)))
    assert work.document("summary.json")["restarts"] == 1


def test_workers_are_gone_a_second_after_the_first_failure_even_if_they_swallow_sigterm(work):
    result = _run(
        work,
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\ntogether()\nif attempt > 1: sys.exit()\n"
        "if rank == 1: killed(signal.SIGSEGV)\ntime.sleep(50)",
    )
    assert result.returncode == 0, result.stderr
    ended = next(event.time for event in read_journal(work.run_dir) if isinstance(event.fact, AttemptEnded))
    assert ended - float((work.folder / "at").read_text()) < 2  # a busy machine; the benchmark measures it


def test_exception_in_one_worker_is_the_scripts_own_error_and_ends_all(work, alive):
    result = _run(work, "together()\nif rank == 1: raise ValueError('its own')\ntime.sleep(50)")
    assert result.returncode == 1
    assert work.document("summary.json")["attempts"] == 1
    text = result.stderr.decode()
    assert "oomph: the last lines of worker 1, all in " in text
    assert "oomph:   | ValueError: its own" in text
    assert not any(map(alive, _pids(work)))


def test_exit_code_is_that_of_the_first_worker_to_fail(work):
    assert _run(work, "together()\nif rank == 1: sys.exit(7)\ntime.sleep(50)").returncode == 7


@pytest.mark.parametrize("first", ["consequence", "cause"])
def test_peers_error_is_a_consequence_even_if_it_comes_first(work, first):
    early, late = (0, 0.1) if first == "consequence" else (0.1, 0)
    result = _run(
        work,
        "together()\nif attempt > 1: sys.exit()\n"
        f"if rank == 1: time.sleep({late}); killed()\ntime.sleep({early})\n"
        "print('UnavailableError: Collective ops is aborted by: recvmsg:Connection reset by peer', file=sys.stderr)\n"
        "os._exit(1)",
    )
    assert result.returncode == 0, result.stderr
    assert _causes(work) == [(1, "killed")]
    found = {(each.worker, each.fault) for each in facts(read_journal(work.run_dir), WorkerFailed)}
    assert found == {(0, "worker-lost"), (1, "killed")}


def test_lost_connection_without_any_other_failure_is_worth_a_restart(work):
    result = _run(
        work,
        "together()\nif attempt > 1: sys.exit()\nif rank == 1: time.sleep(50)\n"
        "print('Collective ops is aborted by: Socket closed', file=sys.stderr)\nos._exit(1)",
    )
    assert result.returncode == 0, result.stderr
    assert _causes(work) == [(0, "worker-lost")]


def test_worker_with_fewer_steps_is_named_and_nothing_starts_again(work):
    result = _run(
        work,
        "together()\nif rank == 0: sys.exit()\ntime.sleep(0.5)\n"
        "print('Collective ops is aborted by: Socket closed', file=sys.stderr)\nos._exit(1)",
    )
    assert result.returncode == 93
    text = result.stderr.decode()
    assert "gave up        worker 0 ended with exit code 0 while worker 1 still trained: the workers take" in text
    assert "starting attempt 2" not in text


def test_workers_with_different_models_do_not_start_again(work):
    result = _run(
        work,
        "together()\nif rank == 0: time.sleep(50)\n"
        "print('InvalidArgumentError: Collective ops is aborted by: Shape mismatch in the collective instance 100. Op'"
        "' at device /job:worker/replica:0/task:1/device:CPU:0 expected shape [8,24] but another member in the group'"
        "' expected shape [8,16].', file=sys.stderr)\nsys.exit(1)",
    )
    assert result.returncode == 93
    text = result.stderr.decode()
    assert "gave up        the workers train different models: worker 1 has a tensor of shape [8,24] where" in text
    assert _causes(work) == [(1, "shape-mismatch")]


def test_stopped_worker_is_the_cause_of_the_error_in_its_peer(work, alive):
    result = _run(
        work,
        "together()\nif attempt > 1: sys.exit()\nif rank == 1: killed(signal.SIGSTOP)\ntime.sleep(0.2)\n"
        "print('The following tasks are unhealthy (stopped sending heartbeats): /job:worker/replica:0/task:1',"
        " file=sys.stderr)\nos._exit(1)",
    )
    assert result.returncode == 0, result.stderr
    assert _causes(work) == [(1, "hang")]
    assert not any(map(alive, _pids(work)))


def test_stopped_worker_is_not_woken_to_be_ended(work):
    result = _run(
        work,
        "together()\nif attempt > 1: sys.exit()\n"
        "if rank == 1:\n    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n    os.kill(os.getpid(), signal.SIGSTOP)\n"
        "    note('woken')\n    time.sleep(50)\ntime.sleep(0.2)\nsys.exit(1)",
    )
    assert result.returncode == 0, result.stderr
    assert not (work.folder / "woken").exists()


def test_port_that_is_taken_is_replaced_by_another(work):
    result = _run(
        work,
        "host, port = cluster['cluster']['worker'][rank].split(':')\ntogether()\n"
        "def serve():\n    one = socket.socket(); one.bind((host, int(port))); one.listen(); return one\n"
        "first = serve()\nif rank == 1 and attempt == 1: serve()\ntogether('end')",
    )
    assert result.returncode == 0, result.stderr
    assert _causes(work) == [(1, "port-in-use")]


def test_worker_that_is_slow_to_start_is_waited_for(work):
    result = _run(work, "if rank == 1: time.sleep(1.5)\ntogether()\nprint('done')")
    assert (result.returncode, result.stdout) == (0, b"done\n")
    assert work.document("summary.json")["attempts"] == 1


def test_first_worker_has_the_terminal_and_the_others_their_logs(work):
    result = _run(
        work,
        "print('out of', rank, sys.stdin.read().strip(), flush=True)\n"
        "print('err of', rank, file=sys.stderr)\ntogether()",
        input=b"typed",
    )
    assert (result.returncode, result.stdout) == (0, b"out of 0 typed\n")
    assert b"err of 0" in result.stderr
    assert b"of 1" not in result.stderr
    assert (work.run_dir / "workers" / "1" / "output" / "1.log").read_text() == "out of 1 \nerr of 1\n"


def test_killed_launcher_leaves_no_worker_behind(work, alive, wait_until):
    work.script(_WORKER + "together()\ntime.sleep(50)")
    process = work.start("--no-guard", "--workers", "3", "train.py")
    wait_until(lambda: len(_pids(work)) == 3)
    os.kill(process.pid, signal.SIGKILL)
    wait_until(lambda: not any(map(alive, _pids(work))), seconds=5)


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_signal_to_the_launcher_ends_all_workers(work, alive, wait_until, signum, code):
    work.script(_WORKER + "together()\ntime.sleep(50)")
    process = work.start("--no-guard", "--workers", "2", "train.py")
    wait_until(lambda: len(_pids(work)) == 2)
    process.send_signal(signum)
    process.communicate(timeout=LIMIT)
    assert process.returncode == code
    assert not any(map(alive, _pids(work)))


def test_workers_may_save_once_they_are_asked_to_stop(work, wait_until):
    work.script(
        _WORKER + "def save(*_):\n    time.sleep(rank)\n    note(f'saved-{rank}')\n    sys.exit(3)\n"
        "signal.signal(signal.SIGTERM, save)\ntogether()\ntime.sleep(50)"
    )
    process = work.start("--no-guard", "--workers", "2", "train.py")
    wait_until(lambda: len(_pids(work)) == 2)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=LIMIT)
    assert process.returncode == 3
    assert (work.folder / "saved-1").exists()


# What oomph's TensorFlow code does in a real script: report that a step runs. `wait` counts as a call of TensorFlow's.
_STEPS = """
from oomph.protocol.handover import Handover
from oomph.protocol.progress import Beat, Phase, Power

exec(compile("def wait(): time.sleep(50)", "/site-packages/tensorflow/python/collective.py", "exec"))
handover = Handover.read()
def beat():
    os.write(handover.beat_fd, Beat(Phase.STEP, Power.NONE, os.getpid(), 0, time.monotonic_ns(), 0).pack())

"""


@pytest.mark.parametrize("how", ["sleeps", "is stopped"])
def test_hang_is_blamed_on_the_worker_for_which_the_others_wait(work, how):
    hangs = "time.sleep(50)  # here" if how == "sleeps" else "killed(signal.SIGSTOP)"
    work.script(
        _WORKER + _STEPS + f"together()\nif attempt > 1: sys.exit()\nbeat()\nif rank == 1:\n    {hangs}\nwait()"
    )
    environ = work.environ(OOMPH_TEST_HANG_FLOOR="3")
    result = work.run("--no-guard", "--workers", "2", "train.py", env=environ)
    assert result.returncode == 0, result.stderr
    (hung,) = facts(read_journal(work.run_dir), Hung)
    assert hung.worker == 1
    assert b"oomph: worker 1: no progress for" in result.stderr
    if how == "sleeps":
        line = 1 + (work.folder / "train.py").read_text().splitlines().index("    time.sleep(50)  # here")
        assert f"train.py:{line}" in hung.line
    assert _causes(work) == [(1, "hang")]


def test_script_without_a_strategy_is_told_that_each_worker_trains_by_itself(work):
    result = _run(work, _STEPS + "together()\nbeat()\ntime.sleep(0.5)")
    assert result.returncode == 0, result.stderr
    assert result.stderr.count(b"each worker trains by itself") == 1


def test_script_whose_workers_listen_is_told_nothing(work):
    serve = (
        "host, port = cluster['cluster']['worker'][rank].split(':')\n"
        "one = socket.socket(); one.bind((host, int(port))); one.listen()\n"
    )
    result = _run(work, _STEPS + serve + "together()\nbeat()\ntime.sleep(0.5)\ntogether('end')")
    assert result.returncode == 0, result.stderr
    assert b"by itself" not in result.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--workers", "0", "train.py"], "--workers expects a whole number from 1 to 1024, not 0"),
        (["--workers", "x", "train.py"], "--workers expects a whole number from 1 to 1024, not x"),
        (["--workers", "-2", "train.py"], "--workers expects a whole number from 1 to 1024, not -2"),
        (["--workers", "2", "train.ipynb"], "leave it out"),
    ],
)
def test_bad_number_of_workers_is_refused_in_one_sentence(work, options, said):
    work.script("print('hello')")
    (work.folder / "train.ipynb").write_text('{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}')
    result = work.run(*options)
    assert result.returncode == 2
    assert said in result.stderr.decode()
    assert b"Traceback" not in result.stderr


def test_worker_of_another_launcher_does_not_start_workers(work):
    work.script("print('hello')")
    result = work.run("--workers", "2", "train.py", env=work.environ(TF_CONFIG='{"cluster": {}}'))
    assert result.returncode == 2
    assert b"TF_CONFIG is set" in result.stderr


def test_run_is_resumed_with_as_many_workers_as_it_has(work, wait_until):
    work.script(_WORKER + "together()\nif attempt == 1: time.sleep(50)\nprint('resumed')")
    process = work.start("--no-guard", "--workers", "2", "train.py")
    wait_until(lambda: len(_pids(work)) == 2)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=LIMIT)
    run_dir = str(work.run_dir)
    wait_until(lambda: not any(psutil.pid_exists(pid) for pid in _pids(work)), seconds=5)
    other = work.run(f"--resume={run_dir}", "--workers", "3", "train.py")
    assert other.returncode == 2
    assert b"is a run of 2 workers" in other.stderr
    again = work.run("--no-guard", "--resume", "--workers", "2", "train.py")
    assert (again.returncode, again.stdout) == (0, b"resumed\n")
    assert work.document("summary.json", Path(run_dir))["attempts"] == 2


def test_worker_that_fails_after_the_first_has_finished_still_counts(work):
    started = time.monotonic()
    result = _run(work, "together()\nif rank == 0: print('done'); sys.exit()\ntime.sleep(0.3)\nsys.exit(4)")
    assert (result.returncode, result.stdout) == (4, b"done\n")
    assert time.monotonic() - started < 10


def test_checkpoints_that_not_all_workers_have_are_set_aside_before_the_restart(work):
    result = _run(
        work,
        "run = Path(json.loads(os.environ['OOMPH_HANDOVER'])['run_dir']) / 'checkpoints'\n"
        "for step in (10, 20, 30)[: 3 - rank] if attempt == 1 else ():\n"
        "    (run / f'step-0000{step}-fit0-epoch0-step{step}').mkdir(parents=True)\n"
        "together()\nif attempt == 1 and rank == 1: killed()\nif attempt == 1: time.sleep(50)\n"
        "print(sorted(os.listdir(run)))",
    )
    assert result.returncode == 0, result.stderr
    kept = ["step-000010-fit0-epoch0-step10", "step-000020-fit0-epoch0-step20"]
    assert result.stdout.decode() == f"{['refused-step-000030-fit0-epoch0-step30', *kept]}\n"
    assert b"worker 0 does not use its checkpoint step-000030-fit0-epoch0-step30" in result.stderr
    assert (work.run_dir / "workers" / "1" / "output" / "2.log").read_text() == f"{kept}\n"


def test_checkpoints_of_all_workers_are_removed_from_a_finished_run(work):
    result = _run(
        work,
        "run = Path(json.loads(os.environ['OOMPH_HANDOVER'])['run_dir'])\n"
        "(run / 'checkpoints' / 'finished-fit0').mkdir(parents=True)\ntogether()",
    )
    assert result.returncode == 0, result.stderr
    assert (work.run_dir / "workers" / "1").is_dir()
    assert not list(work.run_dir.rglob("checkpoints"))


def test_worker_that_ends_by_itself_is_named_in_the_last_line_and_when_explained(work, capsys):
    result = _run(work, "together()\nif rank == 1: sys.exit(7)\ntime.sleep(50)")
    assert result.returncode == 7
    assert b"oomph: worker 1 ended with exit code 7, " in result.stderr
    assert main(["explain", str(work.run_dir)]) == 0
    assert "worker 1 ended with exit code 7, " in " ".join(capsys.readouterr().out.split())


def test_run_is_explained_by_the_worker_that_failed_first(work, capsys):
    _run(
        work,
        "together()\nif rank == 1: time.sleep(0.1); raise ValueError('its own')\n"
        "print('Collective ops is aborted by: Socket closed', file=sys.stderr, flush=True)\nos._exit(1)",
    )
    assert main(["explain", "--json", str(work.run_dir)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["name"] for each in found["diagnoses"]] == ["unrelated"]
    assert found["story"]["incidents"][0]["shown_by"].startswith("worker 1: ")


def test_worker_inherits_nothing_of_another(work):
    result = _run(work, "together()\nnote(f'open-{rank}', len(os.listdir('/proc/self/fd')))", 3)
    assert result.returncode == 0, result.stderr
    assert len({(work.folder / f"open-{rank}").read_text() for rank in range(3)}) == 1


def test_processes_that_outlive_a_finished_worker_can_still_print(work, wait_until):
    result = _run(
        work,
        "import subprocess\ntogether()\n"
        "child = \"import time; time.sleep(1); print('late', flush=True); open('late', 'w').close()\"\n"
        "if rank == 1: subprocess.Popen([sys.executable, '-c', child])",
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        capture_output=False,
    )
    assert result.returncode == 0
    wait_until((work.folder / "late").exists, seconds=10)


def test_worker_that_runs_out_of_memory_twice_at_a_step_that_is_not_split_ends_the_run(work):
    """Another start would only repeat it: the workers take the step together, and its batch stays whole."""
    result = _run(
        work,
        "from oomph.journal.events import FitStarted, RestartRequested\n"
        "from oomph.journal.journal import Journal\n"
        "from oomph.protocol.handover import Handover\n"
        "from oomph.protocol.progress import ProgressBoard\n"
        "handover = Handover.read()\n"
        "journal = Journal(handover.path, attempt, 'script', rank)\n"
        "journal.write(FitStarted(fit=0, guard='restart only', reason='MultiWorkerMirroredStrategy'))\n"
        "ProgressBoard(handover.path, attempt).write(fit=0, epoch=0, step=4, steps=4, saved=0)\ntogether()\n"
        "if rank == 1:\n"
        "    journal.write(RestartRequested(fault='device-oom', reason='out of memory in a step'))\n    os._exit(75)\n"
        "time.sleep(50)",
    )
    assert result.returncode == 93, result.stderr
    assert work.document("summary.json")["attempts"] == 2
    assert b"worker 1: fit 1, epoch 1, step 5 ran out of memory twice" in result.stderr


def test_script_without_a_strategy_is_told_so_once_in_all_attempts(work):
    result = _run(
        work, _STEPS + "together()\nbeat()\ntime.sleep(0.5)\nif attempt == 1 and rank == 1: killed()\ntogether('end')"
    )
    assert result.returncode == 0, result.stderr
    assert work.document("summary.json")["attempts"] == 2
    assert result.stderr.count(b"each worker trains by itself") == 1
