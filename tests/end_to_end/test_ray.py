"""`oomph run --engine ray` on a real Ray cluster of two nodes: a training survives what befalls workers and nodes."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from oomph.journal.events import Resumed
from oomph.journal.journal import facts, read_journal

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason='needs Ray: pip install "oomph[ray]"'),
]
CLUSTER = Path(__file__).parent / "ray_cluster.py"
SCRIPT, FITS = "several_workers.py", "fits_of_workers.py"
SECONDS = 240


class RunningCluster:
    """A Ray cluster in a process of its own."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(CLUSTER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self.address = self._answer()

    def order(self, word: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n".encode())
        self._process.stdin.flush()
        assert self._answer() == "done"

    def close(self) -> list[psutil.Process]:
        """Shut the cluster down, and return its processes that are left."""
        there = psutil.Process(self._process.pid).children(recursive=True)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()
        return psutil.wait_procs(there, 20)[1]

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().decode().strip()


@pytest.fixture(scope="module")
def cluster() -> Iterator[RunningCluster]:
    running = RunningCluster()
    yield running
    assert running.close() == []


@pytest.fixture(scope="module")
def undisturbed(shared: Any) -> dict[str, Any]:
    """Return the weights that two local workers train undisturbed."""
    shared.script(SCRIPT)
    assert shared.oomph("--no-guard", "--workers", "2", SCRIPT, "plain").returncode == 0
    return dict(np.load(shared.folder / "plain-0.npz"))


def _assert_trained(folder: Path, wanted: dict[str, Any]) -> None:
    for rank in range(2):
        found = dict(np.load(folder / f"ours-{rank}.npz"))
        assert found.keys() == wanted.keys()
        for key, value in wanted.items():
            np.testing.assert_allclose(found[key], value, rtol=0, atol=1e-12)


def test_worker_then_node_then_hang_end_with_the_weights_of_an_undisturbed_run(work, cluster, undisturbed):
    work.script(SCRIPT)
    faults = ("1", "7", "SIGKILL", "1", "13", "hang", "0", "23", "hang")
    on_ray = ("--engine", "ray", "--address", cluster.address, "--workers", "2")
    running = work.start(*on_ray, SCRIPT, "ours", *faults, env={"OOMPH_TEST_HANG_FLOOR": "8"})
    running.wait_for(lambda: (work.folder / "ours-struck-13").exists(), SECONDS)
    cluster.order("remove")
    cluster.order("add")
    ended = running.finish(SECONDS)
    assert ended.returncode == 0, ended.stderr[-3000:]
    _assert_trained(work.folder, undisturbed)
    causes = [event.fact for event in ended.events("worker-failed") if event.fact.cause]
    assert [each.fault for each in causes] == ["killed", "worker-lost", "hang"]
    assert (causes[0].worker, causes[2].worker) == (1, 0)
    assert SCRIPT in ended.events("hang")[-1].fact.line
    assert [line for line in ended.stdout.splitlines() if line.startswith("from step")] == [
        "from step 0",
        "from step 5",
        "from step 10",
        "from step 20",
    ]


def test_fit_goes_on_with_the_workers_there_are_and_ends_with_the_weights_of_two(work, cluster, shared):
    shared.script(FITS)
    work.script(FITS)
    alone = {"cluster": {"worker": ["127.0.0.1:0"]}, "task": {"type": "worker", "index": 0}}
    assert shared.plain(FITS, "alone", env={"TF_CONFIG": json.dumps(alone)}).returncode == 0
    on_ray = ("--engine", "ray", "--address", cluster.address, "--workers", "1:2", "--checkpoint-every", "5")
    running = work.start(*on_ray, FITS, "ours", "0", "110", "SIGKILL")
    running.wait_for(lambda: running.journal("checkpoint"))  # the workers agree on a step some seconds ahead
    saved = running.progress().steps
    running.wait_for_step(saved + 5)
    cluster.order("remove")
    running.wait_for_step(saved + 10, attempt=2)
    cluster.order("add")
    ended = running.finish(SECONDS)
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert [len(event.fact.hosts) for event in ended.events("workers-placed")] == [2, 1, 2]
    assert [each.fact.kind for each in ended.events("resumed")] == ["replayed", "replayed"]
    wanted = dict(np.load(shared.folder / "alone-0.npz"))
    del wanted["loss"]  # that of an epoch within which the number changes is of a part of its batches
    for rank in range(2):
        found = dict(np.load(work.folder / f"ours-{rank}.npz"))
        for key, value in wanted.items():
            np.testing.assert_allclose(found[key], value, rtol=0, atol=1e-12)
    reasons = [(each["code"], each["was"], each["now"]) for each in ended.summary["reasons"]]
    assert (ended.summary["exactness"], reasons) == (
        "not-equal",
        [("workers-changed", 2, 1), ("workers-changed", 1, 2)],
    )


def test_killed_fits_resume_where_both_workers_saved_without_a_word_on_when(work, cluster):
    work.script(FITS)
    assert work.oomph("--workers", "2", FITS, "plain", run="local").returncode == 0
    on_ray = ("--engine", "ray", "--address", cluster.address, "--workers", "2")
    ended = work.oomph(*on_ray, FITS, "ours", "1", "100", "SIGKILL")
    assert ended.returncode == 0, ended.stderr[-3000:]
    _assert_trained(work.folder, dict(np.load(work.folder / "plain-0.npz")))
    resumed = [facts(read_journal(run), Resumed) for run in (ended.folder, ended.folder / "workers/1")]
    ((name, steps),) = {(each.name, each.steps) for (each,) in resumed}
    assert 0 < steps < 100, name


def test_own_error_ends_the_run_though_ray_itself_would_try_again(work, cluster):
    work.script(SCRIPT)
    on_ray = ("--engine", "ray", "--address", cluster.address, "--workers", "2")
    ended = work.oomph(*on_ray, SCRIPT, "ours", "1", "7", "raise")
    assert ended.returncode == 1
    assert ended.summary["attempts"] == 1
    assert "oomph:   | ValueError: its own" in ended.stderr


def test_cluster_of_its_own_leaves_no_process_behind(work):
    work.write("import os\nassert 'TF_CONFIG' not in os.environ\n")
    before = {process.pid for process in psutil.process_iter()}
    ended = work.oomph("--engine", "ray", "--address", "local", "--no-guard", "train.py")
    assert ended.returncode == 0, ended.stderr[-3000:]
    mine = [each for each in psutil.process_iter(["pid", "cmdline"]) if each.pid not in before]
    left = [each for each in mine if "ray" in " ".join(each.info["cmdline"] or ())]
    assert psutil.wait_procs(left, 10)[1] == []
