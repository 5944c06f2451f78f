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


def trained(place, count, name, *cases, script="workers.py", poor=None):
    """Run the cases under `oomph run` in each worker; return the runs, and what each worker computed.

    Args:
        poor: the environment of the last worker, which limits its memory.
    """
    place.script(script)
    running = [
        place.start(
            script, name, *cases, run=f"{name}-run-{rank}", env=environment | (poor or {} if rank == count - 1 else {})
        )
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
        assert "(exact)" in each.stderr


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


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((2, "1", "several", "dense", "embedding", "clipped", "dropout", "by_hand"), id="one of two"),
        pytest.param((2, "0,1", "two", "several"), id="both, with two replicas each"),
        pytest.param((4, "2", "dense"), id="one of four"),
    ],
)
def short(request, shared):
    """Return workers of which some ran out of memory, their results, and the ranks of those."""
    count, ranks, *kinds = request.param
    name = f"short-{count}-{len(kinds)}"
    ended, paths = trained(shared, count, name, ranks, *kinds, script="short_workers.py")
    return ended, paths, [int(rank) for rank in ranks.split(",")]


@pytest.mark.slow
def test_worker_short_of_memory_trains_the_weights_of_an_undisturbed_training(short, load, same_bits):
    _, paths, _ = short
    for path in paths[1:]:
        same_bits(paths[0], path)
    values = load(paths[0])
    pairs = {name: name.replace("/undisturbed/", "/disturbed/") for name in values if "/undisturbed/" in name}
    assert len(pairs) > 8
    for undisturbed, disturbed in pairs.items():
        assert abs(values[disturbed] - values[undisturbed]).max() <= TOLERANCE, disturbed


@pytest.mark.slow
def test_only_the_workers_short_of_memory_divide_and_nobody_restarts(short):
    ended, _, ranks = short
    for rank, each in enumerate(ended):
        assert each.summary["attempts"] == 1
        recovered = [event.fact for event in each.events("recovered")]
        assert (recovered != []) is (rank in ranks)
        assert {(fact.guard, fact.micro_batch) for fact in recovered} <= {("exact", 2), (None, 2)}
        assert each.summary["exactness"] == "exact"


@pytest.mark.slow
def test_real_error_on_one_worker_is_solved_while_the_other_waits(shared, memory, load, same_bits):
    poor = {**memory(32), "TF_ENABLE_ONEDNN_OPTS": "0"}
    _, undisturbed = trained(shared, 2, "rich", "large")
    ended, paths = trained(shared, 2, "poor", "large", poor=poor)
    assert [len(each.events("recovered")) for each in ended] == [0, 1]
    same_bits(*paths)
    wanted, found = load(undisturbed[0]), load(paths[0])
    assert len(wanted) > 4
    for name, value in wanted.items():
        assert abs(found[name] - value).max() <= TOLERANCE, name


@pytest.mark.slow
def test_out_of_memory_in_a_step_that_cannot_be_divided_ends_all_workers_for_a_restart(work, memory):
    """The script would go on after the error, and leave the other worker waiting forever."""
    work.script("workers.py")
    first, second = environments(2)
    chief = work.start("workers.py", "out", "synchronized", run="chief", env=first)
    poor = work.start("workers.py", "out", "synchronized", run="poor", env={**second, **memory(32)})
    (asked,) = poor.wait_for(lambda: poor.journal("restart-requested"), SECONDS)
    assert asked.data["fault"] == "device-oom"
    (asked,) = chief.wait_for(lambda: chief.journal("restart-requested"), SECONDS)
    assert asked.data["fault"] == "worker-lost"
    for each in (chief, poor):
        each.wait_for(lambda each=each: each.journal("attempt-ended"), SECONDS)
        assert each.journal("attempt-ended")[0].data["returncode"] == 75
        assert (
            each.journal("fit-started")[0].data["reason"]
            == "the workers exchange values within the step, not only at its end"
        )
