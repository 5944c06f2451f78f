"""Several workers: `fit`, `evaluate` and `predict` under MultiWorkerMirroredStrategy, in real processes."""

from __future__ import annotations

import json
import socket
from contextlib import ExitStack

import pytest

TOLERANCE = 1e-12
SECONDS = 150
"""The time limit of a training. Undisturbed, it takes 10 to 25 s."""


def environments(count: int) -> list[dict[str, str]]:
    """Return TF_CONFIG for each worker of a cluster on free ports of this machine."""
    with ExitStack() as open_sockets:
        sockets = [open_sockets.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        workers = [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]
    tasks = ({"cluster": {"worker": workers}, "task": {"type": "worker", "index": rank}} for rank in range(count))
    return [{"TF_CONFIG": json.dumps(task)} for task in tasks]


def trained(place, count, name, *cases):
    """Run the cases under `oomph run` in each worker; return the runs, and what each worker computed."""
    place.script("workers.py")
    running = [
        place.start("workers.py", name, *cases, run=f"{name}-run-{rank}", env=environment)
        for rank, environment in enumerate(environments(count))
    ]
    ended = [each.finish(SECONDS) for each in running]
    assert [each.returncode for each in ended] == [0] * count, [each.stderr[-3000:] for each in ended]
    return ended, [place.folder / f"{name}-{rank}.npz" for rank in range(count)]


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(("plain", "unbuilt", "uneven"), id="one replica each"),
        pytest.param(("own", "weights", "several"), id="other data and steps"),
        pytest.param(("classes", "shuffled", "by_hand", "eagerly"), id="other ways to train"),
        pytest.param(("two", "plain", "uneven", "several"), id="two replicas each"),
    ],
)
def several(request, shared):
    """Return two workers that trained, with the names of their trainings."""
    ended, paths = trained(shared, 2, "-".join(request.param), *request.param)
    return ended, paths, [case for case in request.param if case != "two"]


@pytest.fixture(scope="module")
def others(shared):
    return trained(shared, 2, "others", "validated", "predicted", "written")


def assert_equal_to_loop(values, case):
    loop = {name.split("/")[2]: value for name, value in values.items() if name.startswith(f"{case}/loop/")}
    assert "loss" in loop, case
    assert len(loop) > 12, case
    for name, value in loop.items():
        assert abs(values[f"{case}/fit/{name}"] - value).max() <= TOLERANCE, (case, name)


@pytest.mark.slow
def test_plain_keras_cannot_fit_under_several_workers(work):
    """If this fails, Keras has been corrected, and several_workers.py can go once older versions are not supported."""
    work.script("workers.py")
    started = [work._popen([work.python, "workers.py", "out", "plain"], env, {}) for env in environments(2)]
    errors = [each.communicate(timeout=SECONDS)[1].decode() for each in started]
    assert [each.returncode for each in started] == [1, 1]
    assert all("Attempt to convert a value (PerReplica" in error for error in errors)


@pytest.mark.slow
def test_fit_trains_the_weights_and_reports_the_losses_of_a_loop(several, load):
    """Every batch is trained on once, the first one too. The loop follows TensorFlow's guide."""
    _, paths, cases = several
    for values in map(load, paths):
        for case in cases:
            assert_equal_to_loop(values, case)


@pytest.mark.slow
def test_all_workers_end_with_the_same_bits(several, same_bits):
    _, paths, _ = several
    same_bits(*paths)


@pytest.mark.slow
def test_run_says_once_that_keras_is_corrected(several):
    ended, _, _ = several
    for each in ended:
        assert sum("this Keras cannot train under MultiWorkerMirroredStrategy" in line for line in each.said) == 1
        assert each.events("guard-failed") == []
        assert "(restart only: MultiWorkerMirroredStrategy)" in each.stderr


@pytest.mark.slow
def test_validation_and_evaluation_are_means_over_all_samples(others, load):
    """The 13 samples are shared unevenly, so that a mean of the workers' means would differ."""
    for values in map(load, others[1]):
        true = values["validated/true"]
        last = [values[f"validated/fit/{name}"][-1] for name in ("val_loss", "val_mae")]
        for found in (last, values["validated/dataset"], values["validated/arrays"]):
            assert abs(found - true).max() <= TOLERANCE


@pytest.mark.slow
def test_every_worker_gets_all_predictions_in_order(others, load):
    for values in map(load, others[1]):
        for name in ("arrays", "dataset"):
            assert abs(values[f"predicted/{name}"] - values["predicted/true"]).max() <= TOLERANCE


@pytest.mark.slow
def test_only_the_chief_leaves_files_of_callbacks(others, shared):
    kept = sorted(path.name for path in (shared.folder / "kept").iterdir())
    assert kept == ["1.keras", "2.keras", "3.keras"]
    assert len((shared.folder / "log.csv").read_text().splitlines()) == 4
    assert len(list(shared.folder.glob("board/train/*"))) == 1
    assert list(shared.folder.rglob("workertemp*")) == []


@pytest.mark.slow
def test_four_workers_train_the_weights_of_a_loop(work, load, same_bits):
    _, paths = trained(work, 4, "four", "plain", "uneven")
    for values in map(load, paths):
        assert_equal_to_loop(values, "plain")
        assert_equal_to_loop(values, "uneven")
    for path in paths[1:]:
        same_bits(paths[0], path)


@pytest.mark.slow
def test_out_of_memory_on_one_worker_ends_all_of_them_for_a_restart(work, memory):
    """The script would go on after the error, and leave the other worker waiting forever."""
    work.script("workers.py")
    first, second = environments(2)
    chief = work.start("workers.py", "out", "large", run="chief", env=first)
    short = work.start("workers.py", "out", "large", run="short", env={**second, **memory(32)})
    (asked,) = short.wait_for(lambda: short.journal("restart-requested"), SECONDS)
    assert asked.data["fault"] == "device-oom"
    (asked,) = chief.wait_for(lambda: chief.journal("restart-requested"), SECONDS)
    assert asked.data["fault"] == "worker-lost"
    for each in (chief, short):
        each.wait_for(lambda each=each: each.journal("attempt-ended"), SECONDS)
        assert each.journal("attempt-ended")[0].data["returncode"] == 75
