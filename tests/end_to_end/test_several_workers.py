"""`oomph run --workers 2` with real TensorFlow: a custom loop under MultiWorkerMirroredStrategy survives its faults."""

from __future__ import annotations

import json
import socket
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Running, arrays

pytestmark = pytest.mark.slow
SCRIPT = "several_workers.py"


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


def _weights(folder: Path) -> list[dict[str, Any]]:
    return [arrays(folder / f"ours-{rank}.npz") for rank in range(2)]


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
        line = 1 + (work.folder / SCRIPT).read_text().splitlines().index("            time.sleep(300)  # hangs here")
        assert f"{SCRIPT}:{line}" in ended.events("hang")[0].fact.line


def test_exception_in_one_worker_ends_all_with_its_exit_code(work):
    work.script(SCRIPT)
    ended = work.oomph("--workers", "2", SCRIPT, "ours", "1", "17", "raise")
    assert ended.returncode == 1
    assert ended.summary["attempts"] == 1
    assert "oomph:   | ValueError: its own" in ended.stderr
