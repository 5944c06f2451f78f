"""Custom loops under MultiWorkerMirroredStrategy, in real processes: they end as undisturbed ones, whatever happens."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import arrays
from test_fit_of_workers import environments

from oomph.journal.events import Resumed
from oomph.journal.journal import facts, read_journal

pytestmark = pytest.mark.slow
SCRIPT = "loops_of_workers.py"
SECONDS = 60


@pytest.fixture(scope="module")
def undisturbed(shared: Any) -> dict[str, Any]:
    """Return the state that two workers train without oomph."""
    shared.script(SCRIPT)
    started = [shared._popen([shared.python, SCRIPT, "plain", "plain"], env, {}) for env in environments(2)]
    assert [(each.communicate(timeout=SECONDS), each.returncode)[1] for each in started] == [0, 0]
    return arrays(shared.folder / "plain-0.npz")


def trained(place: Any, kind: str, *fault: str, code: int = 0) -> Any:
    place.script(SCRIPT)
    ended = place.oomph("--workers", "2", "--checkpoint-every=5", SCRIPT, "ours", kind, *fault)
    assert ended.returncode == code, ended.stderr[-3000:]
    return ended


def assert_trained(place: Any, wanted: dict[str, Any]) -> None:
    for rank in range(2):
        found = arrays(place.folder / f"ours-{rank}.npz")
        assert found.keys() == wanted.keys()
        for key, value in wanted.items():
            assert np.array_equal(found[key], value), key


def resumptions(ended: Any) -> list[list[str]]:
    """Return how each worker's loops were resumed in their data."""
    return [
        [each.kind for each in facts(read_journal(run), Resumed)] for run in (ended.folder, ended.folder / "workers/1")
    ]


@pytest.mark.parametrize("rank", ["0", "1"])
def test_killed_worker_costs_a_loop_over_steps_no_batch_and_no_bit(work, undisturbed, rank):
    ended = trained(work, "steps", rank, "17", "SIGKILL")
    assert_trained(work, undisturbed)
    assert resumptions(ended) == [["exact"], ["exact"]]
    assert ended.summary["attempts"] == 2


def test_guarded_step_that_runs_out_of_memory_on_one_worker_restarts_all(work, undisturbed):
    ended = trained(work, "guarded", "1", "17", "memory")
    assert_trained(work, undisturbed)
    assert resumptions(ended) == [["exact"], ["exact"]]
    (failed,) = [event.fact for event in ended.events("worker-failed") if event.fact.cause]
    assert (failed.worker, failed.fault) == (1, "device-oom")
    whole = "micro-batches of train: none, since replicas of MultiWorkerMirroredStrategy share each batch"
    assert f"oomph: {whole}" in ended.said


def test_guard_leaves_a_script_as_it_is_without_oomph_run(work, undisturbed):
    work.script(SCRIPT)
    started = [work._popen([work.python, SCRIPT, "ours", "guarded"], env, {}) for env in environments(2)]
    assert [(each.communicate(timeout=SECONDS), each.returncode)[1] for each in started] == [0, 0]
    assert_trained(work, undisturbed)


def test_overflow_on_one_worker_makes_all_skip_the_step(work):
    """Plain Keras hangs here: the worker whose gradients overflow leaves out the update in which the others wait."""
    trained(work, "scaled")
    scales = [float([*arrays(work.folder / f"ours-{rank}.npz").values()][-1]) for rank in range(2)]
    assert scales == [1024 / 2**3] * 2, "once in each epoch"
