"""`oomph run --workers 2` with real TensorFlow: a loop and fits under a strategy for several workers survive faults."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Running, arrays

from oomph.journal.events import CheckpointSaved, Resumed
from oomph.journal.journal import facts, read_journal

pytestmark = pytest.mark.slow
SCRIPT, FITS = "several_workers.py", "fits_of_workers.py"


@pytest.fixture(scope="module")
def undisturbed(shared: Any) -> dict[str, Any]:
    """Return the weights that two plain processes train."""
    shared.script(SCRIPT)
    with ExitStack() as stack:
        held = [stack.enter_context(socket.socket()) for _ in range(2)]
        for each in held:
            each.bind(("127.0.0.1", 0))
        addresses = [f"127.0.0.1:{each.getsockname()[1]}" for each in held]
    config = {"cluster": {"worker": addresses}}
    environs = [{"TF_CONFIG": json.dumps({**config, "task": {"type": "worker", "index": rank}})} for rank in range(2)]
    started = [Running(shared._popen([shared.python, SCRIPT, "plain"], each, {}), shared.folder) for each in environs]
    assert [each.finish().returncode for each in started] == [0, 0]
    found = arrays(shared.folder / "plain-0.npz")
    _assert_equal(arrays(shared.folder / "plain-1.npz"), found)
    return found


def _assert_equal(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert found.keys() == wanted.keys()
    for key, value in wanted.items():
        np.testing.assert_allclose(found[key], value, rtol=0, atol=1e-12)


def _weights(folder: Path, name: str = "ours") -> list[dict[str, Any]]:
    return [arrays(folder / f"{name}-{rank}.npz") for rank in range(2)]


@pytest.mark.parametrize(
    ("rank", "how", "fault"),
    [
        (1, "SIGKILL", "killed"),
        (0, "SIGKILL", "killed"),
        (1, "SIGSTOP", "hang"),
        (0, "SIGSTOP", "hang"),
        (1, "hang", "hang"),
    ],
)
def test_workers_end_with_the_weights_of_an_undisturbed_run(work, undisturbed, rank, how, fault):
    work.script(SCRIPT)
    ended = work.oomph("--workers", "2", SCRIPT, "ours", str(rank), "17", how, env={"OOMPH_TEST_HANG_FLOOR": "5"})
    assert ended.returncode == 0, ended.stderr[-3000:]
    for found in _weights(work.folder):
        _assert_equal(found, undisturbed)
    assert ended.events("loop-seen")
    assert ended.stdout.split() == ["from", "step", "0", "from", "step", "15"]
    (failed,) = [event.fact for event in ended.events("worker-failed") if event.fact.cause]
    assert (failed.worker, failed.fault) == (rank, fault)
    if how == "hang":
        lines = (work.folder / SCRIPT).read_text().splitlines()
        (line,) = [number for number, text in enumerate(lines, 1) if text.endswith("# hangs here")]
        assert f"{SCRIPT}:{line}" in ended.events("hang")[0].fact.line


def test_exception_in_one_worker_ends_all_with_its_exit_code(work):
    work.script(SCRIPT)
    ended = work.oomph("--workers", "2", SCRIPT, "ours", "1", "17", "raise")
    assert ended.returncode == 1
    assert ended.summary["attempts"] == 1
    assert "oomph:   | ValueError: its own" in ended.stderr


@pytest.fixture(scope="module")
def undisturbed_fits(shared: Any) -> dict[str, Any]:
    """Return what two undisturbed workers train in two fits. That this is right is shown in test_fit_of_workers.py."""
    shared.script(FITS)
    ended = shared.oomph("--workers", "2", FITS, "undisturbed", run="undisturbed-run")
    assert (ended.returncode, ended.summary["exactness"]) == (0, "exact"), ended.stderr[-3000:]
    assert _saved(ended.folder, 0) == _saved(ended.folder, 1)
    assert len(_saved(ended.folder, 0)) > 2
    first, second = _weights(shared.folder, "undisturbed")
    _assert_equal(first, second)
    return first


def _saved(run: Path, rank: int, attempt: int = 1) -> list[str]:
    """Return the names of the checkpoints that a worker has saved in an attempt."""
    events = read_journal(run if rank == 0 else run / "workers" / str(rank), attempt)
    return [each.name for each in facts(events, CheckpointSaved)]


@pytest.mark.parametrize(("rank", "at"), [(1, "end"), (0, "70")])
def test_killed_fits_repeat_only_the_steps_since_the_last_common_checkpoint(work, undisturbed_fits, rank, at):
    """With "end", one worker has saved the end state of the first fit when the other is killed."""
    work.script(FITS)
    ended = work.oomph("--workers", "2", FITS, "ours", str(rank), at, "SIGKILL")
    assert ended.returncode == 0, ended.stderr[-3000:]
    for found in _weights(work.folder):
        _assert_equal(found, undisturbed_fits)
    (other, own) = (_saved(ended.folder, 1 - rank), _saved(ended.folder, rank))
    assert [name for name in other if name != "finished-fit0"] == own
    assert ("finished-fit0" in other) == (at == "end")
    resumed = [facts(read_journal(run), Resumed) for run in (ended.folder, ended.folder / "workers" / "1")]
    assert {each.name for (each,) in resumed} == {own[-1]}
    assert (ended.summary["attempts"], ended.summary["exactness"]) == (2, "verified")
    assert ended.summary["steps_repeated"] == (120 if at == "end" else 70) - resumed[0][0].steps


def test_worker_whose_own_data_is_over_resumes_in_the_step_of_the_others(work):
    """The first worker replays its data, which ends 20 steps before its epoch; the other restores its place in it."""
    work.script(FITS)
    assert work.oomph("--workers", "2", FITS, "own-undisturbed", run="undisturbed").returncode == 0
    ended = work.oomph("--workers", "2", "--checkpoint-every=5", FITS, "own", "1", "57", "SIGKILL")
    assert ended.returncode == 0, ended.stderr[-3000:]
    for rank in range(2):
        _assert_equal(arrays(work.folder / f"own-{rank}.npz"), arrays(work.folder / f"own-undisturbed-{rank}.npz"))
    resumed = [facts(read_journal(run), Resumed) for run in (ended.folder, ended.folder / "workers" / "1")]
    assert {each.steps for (each,) in resumed} == {55}
    assert ended.summary["steps_repeated"] == 2


def test_sigterm_saves_and_stops_all_workers_at_the_same_step(work, undisturbed_fits):
    work.script(FITS)
    running = work.start("--workers", "2", FITS, "ours")
    running.wait_for_step(40)
    asked = time.monotonic()
    os.kill(running.process.pid, signal.SIGTERM)
    ended = running.finish()
    assert time.monotonic() - asked < 10  # TensorFlow swallows the signal: it was 25 s
    assert ended.returncode == 75, ended.stderr[-3000:]
    assert _saved(ended.folder, 0) == _saved(ended.folder, 1)
    again = work.oomph("--workers", "2", f"--resume={ended.folder}", FITS, "ours")
    assert again.returncode == 0, again.stderr[-3000:]
    assert again.summary["steps_repeated"] == 0
    for found in _weights(work.folder):
        _assert_equal(found, undisturbed_fits)


def _on_two_hosts(work, *fault: str) -> list[Running]:
    """Start the fits as a scheduler does on two hosts with one folder, from the newest common checkpoint."""
    place = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_NTASKS": "2", "SLURMD_NODENAME": "127.0.0.1"}
    options = ("--engine=env", "--run-dir=run", "--resume", FITS, "ours", *fault)
    return [work.start(*options, env={**place, "SLURM_PROCID": str(rank)}) for rank in range(2)]


def test_workers_on_two_hosts_save_and_stop_at_the_same_steps_without_a_word_on_when(work, undisturbed_fits):
    work.script(FITS)
    folders = (work.folder / "run", work.folder / "run/workers/1")
    ended = [each.finish() for each in _on_two_hosts(work, "1", "100", "SIGKILL")]
    assert [each.returncode for each in ended] == [75, 75], ended
    assert _saved(folders[0], 0, 1) == _saved(folders[0], 1, 1) != []
    running = _on_two_hosts(work)
    running[0].wait_for_step(70, attempt=2)
    asked = time.monotonic()
    os.kill(running[1].process.pid, signal.SIGTERM)
    ended = [each.finish() for each in running]
    assert time.monotonic() - asked < 20  # it is killed after 25 s
    assert [each.returncode for each in ended] == [75, 75], ended
    (last,) = {_saved(folders[0], rank, 2)[-1] for rank in range(2)}
    ended = [each.finish() for each in _on_two_hosts(work)]
    assert [each.returncode for each in ended] == [0, 0], ended
    for folder in folders:
        first, second = facts(read_journal(folder), Resumed)
        assert first.name == _saved(folders[0], 0, 1)[-1]
        assert second.name == last
    for found in _weights(work.folder):
        _assert_equal(found, undisturbed_fits)
