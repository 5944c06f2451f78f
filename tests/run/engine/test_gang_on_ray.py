"""Entire `oomph run --engine ray` invocations, on a stand-in for Ray: who ends, who is blamed, who is left.

The agents, their lines and the supervisor are real; only Ray's own part is played by threads (`fake_ray`).
"""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest

from oomph.journal.events import Hung, WorkerFailed, WorkersPlaced
from oomph.journal.journal import facts, read_journal

_FAKE = Path(__file__).with_name("fake_ray")
_WORKER = """
import json, os, signal, sys, time
from pathlib import Path

cluster = json.loads(os.environ["TF_CONFIG"])
rank, workers = cluster["task"]["index"], len(cluster["cluster"]["worker"])
attempt = json.loads(os.environ["OOMPH_HANDOVER"])["attempt"]

def note(name, text="x"):
    Path(f"{name}.partial-{rank}").write_text(f"{text}\\n")
    os.rename(f"{name}.partial-{rank}", name)

def together(name="start"):
    note(f"{name}-{attempt}-{rank}", os.getpid())
    while not all(os.path.exists(f"{name}-{attempt}-{each}") for each in range(workers)):
        time.sleep(0.005)

"""


def _environ(work: Any, **more: str) -> dict[str, str]:
    environ: dict[str, str] = work.environ(PYTHONPATH=str(_FAKE), **more)
    return environ


def _run(work: Any, script: str, *options: str, environ: dict[str, str] | None = None, **more: Any) -> Any:
    work.script(_WORKER + script)
    words = ("--no-guard", "--engine", "ray", "--address", "local", *options, "train.py")
    return work.run(*words, env=_environ(work, **(environ or {})), **more)


def _causes(work: Any) -> list[tuple[int, str]]:
    return [(each.worker, each.fault) for each in facts(read_journal(work.run_dir), WorkerFailed) if each.cause]


def _pids(work: Any) -> list[int]:
    return [int(path.read_text()) for path in sorted(work.folder.glob("start-*"))]


def test_workers_get_addresses_and_the_first_ones_output_is_shown(work, alive):
    result = _run(
        work, "together()\nnote(f'config-{rank}', os.environ['TF_CONFIG'])\nprint('I am', rank)", "--workers=2"
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout == b"I am 0\n"
    assert (work.run_dir / "workers/1/output/1.log").read_text() == "I am 1\n"
    configs = [json.loads((work.folder / f"config-{rank}").read_text()) for rank in range(2)]
    assert [each["task"]["index"] for each in configs] == [0, 1]
    assert configs[0]["cluster"] == configs[1]["cluster"]
    assert len(set(configs[0]["cluster"]["worker"])) == 2
    assert (work.folder / "left-ray").exists()


def test_one_worker_is_no_cluster(work):
    work.script("import os\nassert 'TF_CONFIG' not in os.environ\n", "alone.py")
    words = ("--no-guard", "--engine", "ray", "--address", "local", "alone.py")
    result = work.run(*words, env=_environ(work))
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("rank", [0, 1])
def test_killed_worker_makes_all_start_again_on_new_ports(work, rank, alive):
    result = _run(
        work,
        "together()\nnote(f'ports-{attempt}', cluster['cluster'])\nif attempt > 1: sys.exit()\n"
        f"if rank == {rank}: os.kill(os.getpid(), signal.SIGKILL)\ntime.sleep(50)",
        "--workers=2",
    )
    assert result.returncode == 0, result.stderr
    assert f"oomph: worker {rank} was killed by SIGKILL; starting attempt 2".encode() in result.stderr
    assert _causes(work) == [(rank, "killed")]
    assert (work.folder / "ports-1").read_text() != (work.folder / "ports-2").read_text()
    assert not any(map(alive, _pids(work)))


def test_own_error_is_not_tried_again(work, alive):
    result = _run(work, "together()\nif rank == 1: raise ValueError('its own')\ntime.sleep(50)", "--workers=2")
    assert result.returncode == 1
    assert work.document("summary.json")["attempts"] == 1
    assert b"oomph:   | ValueError: its own" in result.stderr
    assert not any(map(alive, _pids(work)))


_LOST = (
    "together()\nif attempt > 1: sys.exit()\nif rank == 1: note('lost-1'); time.sleep(50)\n"
    "while not os.path.exists('lost-1'): time.sleep(0.01)\ntime.sleep(0.3)\n"
    "print('Collective ops is aborted by: Socket closed', file=sys.stderr)\nos._exit(1)"
)


def test_lost_node_is_the_cause_and_its_worker_gets_another_place(work, alive):
    result = _run(work, _LOST, "--workers=2", environ={"FAKE_RAY": '{"cpus": [1, 1, 1]}'})
    assert result.returncode == 0, result.stderr
    assert _causes(work) == [(1, "worker-lost")]
    assert b"worker 1 was lost, with its machine or its place there; starting attempt 2" in result.stderr
    assert len(facts(read_journal(work.run_dir), WorkersPlaced)) == 2
    assert not any(map(alive, _pids(work)))


def test_killed_agent_takes_its_worker_along_and_the_place_stays(work, alive):
    result = _run(
        work,
        "together()\nif attempt > 1: sys.exit()\nif rank == 1: os.kill(os.getppid(), signal.SIGKILL)\ntime.sleep(50)",
        "--workers=2",
    )
    assert result.returncode == 0, result.stderr
    assert _causes(work) == [(1, "worker-lost")]
    assert not any(map(alive, _pids(work)))


@pytest.mark.parametrize(("is_back", "code"), [(True, 0), (False, 75)])
def test_lost_cluster_is_looked_for_once_more(work, wait_until, is_back, code, alive):
    work.script(_WORKER + "together()\nif attempt > 1: sys.exit()\ntime.sleep(50)")
    words = ("--no-guard", "--engine", "ray", "--address", "local", "--workers=2", "train.py")
    started = work.start(*words, env=_environ(work))
    work.wait_for("start-1-0", "start-1-1")
    if not is_back:
        (work.folder / "lost-0").touch()
        (work.folder / "lost-1").touch()
    (seats,) = [each for each in psutil.Process(started.pid).children() if "ray_seats.py" in " ".join(each.cmdline())]
    seats.kill()
    _, err = started.communicate(timeout=60)
    assert started.returncode == code, err
    assert _causes(work) == [(0, "worker-lost")]
    assert is_back or b"oomph: 2 workers need a CPU each, and the cluster has 0\n" in err
    assert not any(map(alive, _pids(work)))


def test_gang_waits_for_a_node_that_replaces_the_lost_one(work, wait_until):
    work.script(_WORKER + _LOST)
    words = ("--no-guard", "--engine", "ray", "--address", "local", "--workers=2", "train.py")
    started = work.start(*words, env=_environ(work))
    work.wait_for("start-1-1")
    wait_until(lambda: (work.folder / "lost-1").exists())
    (work.folder / "room").touch()
    _, err = started.communicate(timeout=60)
    assert started.returncode == 0, err


def _sizes(work: Any) -> list[int]:
    return [len(each.hosts) for each in facts(read_journal(work.run_dir), WorkersPlaced)]


def test_gang_starts_with_what_there_is_and_grows_at_the_next_restart(work):
    result = _run(
        work,
        "together()\nnote(f'of-{attempt}', workers)\nif attempt > 1: sys.exit()\n"
        "if rank == 1: note('room'); os.kill(os.getpid(), signal.SIGKILL)\ntime.sleep(50)",
        "--workers=1:4",
    )
    assert result.returncode == 0, result.stderr
    assert b"oomph: starting 2 of 4 workers: there is no room for more" in result.stderr
    assert b"oomph: going on with 4 workers instead of 2" in result.stderr
    assert _sizes(work) == [2, 4]
    assert work.document("run.json")["workers"] == 4
    assert work.document("summary.json")["reasons"][0]["code"] == "workers-changed"


def test_worker_that_cannot_join_fails_the_run_in_one_sentence(work):
    result = _run(
        work,
        "together()\nif rank == 0: Path(json.loads(os.environ['OOMPH_HANDOVER'])['run_dir'], 'workers/2').touch()\n"
        "if rank == 1: note('room'); os.kill(os.getpid(), signal.SIGKILL)\ntime.sleep(50)",
        "--workers=1:4",
    )
    assert result.returncode == 2, result.stderr
    assert b"workers/2 cannot be written: 2 is a link, or not a folder" in b"".join(result.stderr.split(b"\n"))
    assert b"Traceback" not in result.stderr
    assert work.document("run.json")["status"] == "failed"


@pytest.mark.slow
def test_gang_goes_on_with_fewer_once_a_lost_node_stays_away(work):
    result = _run(work, _LOST, "--workers=1:2", environ={"FAKE_RAY": '{"cpus": [1, 1]}'})
    assert result.returncode == 0, result.stderr
    assert b"the cluster has 1: waiting for 30 s for other nodes" in result.stderr
    assert b"oomph: going on with 1 worker instead of 2" in result.stderr
    assert _sizes(work) == [2, 1]


def test_elastic_run_is_resumed_with_what_there_is(work):
    script = "note(f'of-{attempt}', workers)\nos._exit(75)"
    assert _run(work, script, "--workers=1:2").returncode == 75
    resumed = _run(work, script, "--workers=1:2", "--resume", environ={"FAKE_RAY": '{"cpus": [1]}'})
    assert resumed.returncode == 75, resumed.stderr
    assert _sizes(work) == [2, 1]
    refused = _run(work, script, "--workers=2", f"--resume={work.run_dir}")
    assert refused.returncode == 2
    assert b"is a run of 1 worker, each with its own part of the data: resume it with --workers 1" in refused.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--workers=1:2"], "the number of workers can change only on a Ray cluster: give one, or add --engine ray"),
        (["--placement-strategy=SPREAD"], "--placement-strategy is for a Ray cluster: add --engine ray"),
        (["--resources-per-worker=GPU=1"], "--resources-per-worker is for a Ray cluster: add --engine ray"),
        (["--workers=3:2"], "--workers 3:2: the first number has to be smaller than the second"),
        (["--workers=2:x"], "--workers expects a whole number from 1 to "),
        (["--resources-per-worker=GPU"], "--resources-per-worker expects NAME=AMOUNT, as in GPU=2,CPU=4, not GPU"),
        (["--resources-per-worker=GPU=0"], "--resources-per-worker GPU=0: each worker needs more than 0 of something"),
    ],
)
def test_options_that_do_not_fit_are_one_sentence(work, options, said):
    work.script("")
    result = work.run(*options, "train.py")
    assert (result.returncode, result.stderr.count(b"\n")) == (2, 1)
    assert result.stderr.decode().startswith(f"oomph: {said}")


def test_ctrl_c_ends_the_wait_for_a_node(work, wait_until):
    work.script(_WORKER + _LOST)
    words = ("--no-guard", "--engine", "ray", "--address", "local", "--workers=2", "train.py")
    started = work.start(*words, env=_environ(work))
    text = b""
    while b"starting attempt 2" not in text:
        text += started.stderr.readline()
    started.send_signal(signal.SIGINT)
    _, err = started.communicate(timeout=60)
    assert started.returncode == 130, err


def test_hang_is_found_on_its_machine_and_named(work, alive):
    result = _run(
        work,
        "from oomph.protocol.progress import Phase\n"
        "together()\nif attempt > 1: sys.exit()\n"
        "if rank == 1: note('at'); os.kill(os.getpid(), signal.SIGSTOP)\n"
        "while not os.path.exists('at'): time.sleep(0.01)\ntime.sleep(0.5)\n"
        "print('The following tasks are unhealthy (stopped sending heartbeats): /job:worker/replica:0/task:1',"
        " file=sys.stderr)\nos._exit(1)",
        "--workers=2",
    )
    assert result.returncode == 0, result.stderr
    assert _causes(work) == [(1, "hang")]
    assert not facts(read_journal(work.run_dir), Hung)
    assert not any(map(alive, _pids(work)))


def test_sigterm_reaches_all_workers(work):
    work.script(
        _WORKER + "def leave(*_):\n    note(f'told-{rank}')\n    sys.exit(3)\n"
        "signal.signal(signal.SIGTERM, leave)\ntogether()\ntime.sleep(50)"
    )
    words = ("--no-guard", "--engine", "ray", "--address", "local", "--workers=2", "train.py")
    started = work.start(*words, env=_environ(work))
    work.wait_for("start-1-0", "start-1-1")
    started.send_signal(signal.SIGTERM)
    _, err = started.communicate(timeout=60)
    assert work.wait_for("told-0", "told-1") == ["x", "x"]
    assert started.returncode == 3, err


def test_killed_supervisor_leaves_no_worker(work, alive, wait_until):
    work.script(_WORKER + "together()\ntime.sleep(50)")
    words = ("--no-guard", "--engine", "ray", "--address", "local", "--workers=2", "train.py")
    started = work.start(*words, env=_environ(work))
    work.wait_for("start-1-0", "start-1-1")
    os.kill(started.pid, signal.SIGKILL)
    wait_until(lambda: not any(map(alive, _pids(work))))


@pytest.mark.parametrize(
    ("environ", "options", "said"),
    [
        ({}, ["--workers=3"], "3 workers need a CPU each, and the cluster has 2"),
        (
            {"FAKE_RAY": '{"cpus": [2], "gpus": [1]}'},
            ["--workers=2"],
            "2 workers need a GPU each, and the cluster has 1",
        ),
    ],
)
def test_cluster_without_room_is_one_sentence_and_no_run(work, environ, options, said):
    result = _run(work, "", *options, environ=environ)
    assert result.returncode == 2
    assert result.stderr.decode().startswith(f"oomph: {said}")
    assert result.stderr.count(b"\n") == 1
    assert not (work.folder / ".oomph").exists()


def test_address_at_which_nobody_answers(work):
    work.script("")
    result = work.run("--engine=ray", "--workers=2", "--address=127.0.0.1:1", "train.py", env=_environ(work))
    assert (result.returncode, result.stderr) == (
        2,
        b"oomph: no Ray cluster answers at 127.0.0.1:1: Connection refused\n",
    )


def test_address_without_ray_is_refused(work):
    work.script("")
    result = work.run("--address=127.0.0.1:1", "train.py")
    assert result.returncode == 2
    assert b"--address is for a Ray cluster: add --engine ray" in result.stderr


@pytest.mark.parametrize("version", ["1.13.0", "3.0.0"])
def test_another_major_version_of_ray(work, version, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    info = other / f"ray-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: ray\nVersion: {version}\n")
    work.script("")
    result = work.run("--engine=ray", "--workers=2", "train.py", env=work.environ(PYTHONPATH=str(other)))
    assert result.returncode == 2
    assert f"has Ray {version}, and oomph supports Ray 2: " in result.stderr.decode()
    assert 'pip install "oomph[ray]"' in result.stderr.decode()
