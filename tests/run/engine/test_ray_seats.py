"""The decisions about Ray that need no Ray: shares of GPUs, versions, addresses."""

from __future__ import annotations

import importlib.metadata
import socket
from types import SimpleNamespace

import pytest

from oomph.run.engine.ray_engine import REUNION_SECONDS, least_wanted, passed_on
from oomph.run.engine.ray_seats import NoSeatError, Seats, WantedSeats, shares, why_no_ray, why_not_reached


@pytest.mark.parametrize(
    ("gpus", "workers", "each"),
    [([8], 4, 2), ([4, 2], 2, 2), ([3, 3], 4, 1), ([4, 4], 2, 4), ([1, 1, 1], 2, 1)],
)
def test_workers_get_as_many_gpus_as_fit_on_the_nodes(gpus, workers, each):
    nodes = [{"CPU": 8.0, "GPU": count} for count in gpus]
    assert shares(nodes, workers, workers, WantedSeats()) == (workers, {"CPU": 1, "GPU": each})


@pytest.mark.parametrize(
    ("nodes", "fewest", "most", "wanted", "found"),
    [
        ([{"CPU": 1}, {"CPU": 1}], 1, 4, WantedSeats(), (2, {"CPU": 1})),
        ([{"CPU": 8}], 2, 4, WantedSeats(), (4, {"CPU": 1})),
        ([{"CPU": 8, "GPU": 2}], 1, 4, WantedSeats(), (2, {"CPU": 1, "GPU": 1})),
        ([{"CPU": 8, "GPU": 4}], 1, 1, WantedSeats({"GPU": 1}), (1, {"GPU": 1})),
        ([{"CPU": 8}, {"CPU": 3}], 1, 9, WantedSeats({"CPU": 2}), (5, {"CPU": 2})),
        ([{"CPU": 8}, {"CPU": 3}], 1, 9, WantedSeats({"CPU": 2}, "STRICT_PACK"), (4, {"CPU": 2})),
        ([{"CPU": 8}, {"CPU": 3}, {"CPU": 1}], 1, 9, WantedSeats({"CPU": 2}, "STRICT_SPREAD"), (2, {"CPU": 2})),
        ([{"CPU": 1}], 1, 99, WantedSeats({"CPU": 0.1}), (10, {"CPU": 0.1})),
    ],
)
def test_as_many_workers_start_as_the_cluster_has_room_for(nodes, fewest, most, wanted, found):
    assert shares(nodes, fewest, most, wanted) == found


@pytest.mark.parametrize(
    ("nodes", "wanted", "said"),
    [
        (
            [{"CPU": 2, "GPU": 1}, {"CPU": 2, "GPU": 1}],
            WantedSeats(),
            "3 workers need a GPU each, and the cluster has 2",
        ),
        ([{"CPU": 2}], WantedSeats(), "3 workers need a CPU each, and the cluster has 2"),
        ([], WantedSeats(), "3 workers need a CPU each, and the cluster has 0"),
        (
            [{"CPU": 8, "GPU": 4}],
            WantedSeats({"CPU": 1, "GPU": 2}, "STRICT_SPREAD"),
            "3 workers need 1 CPU and 2 GPU each, placed by STRICT_SPREAD, and the cluster has room for 1",
        ),
    ],
)
def test_cluster_without_room_for_the_fewest_is_refused_until_it_grows(nodes, wanted, said):
    with pytest.raises(NoSeatError) as refused:
        shares(nodes, 3, 4, wanted)
    assert (str(refused.value), refused.value.is_for_now) == (said, True)


def test_on_a_shared_cluster_as_many_workers_start_as_others_leave_room_for(monkeypatch):
    """Each keeps its GPU: fewer workers with more GPUs each would need as many as before, of which half are in use."""
    asked = []

    def placement_group(bundles, strategy):
        asked.append([bundle["GPU"] for bundle in bundles])
        return SimpleNamespace(ready=lambda: sum(asked[-1]) <= 4)

    seat = SimpleNamespace(look=SimpleNamespace(remote=lambda: {"oomph": True}))
    ray = SimpleNamespace(
        init=lambda **_: None,
        kill=lambda _: None,
        nodes=lambda: [{"Alive": True, "Resources": {"CPU": 16, "GPU": 8}}],
        available_resources=lambda: {"CPU": 12, "GPU": 4},
        util=SimpleNamespace(placement_group=placement_group, remove_placement_group=lambda _: None),
        wait=lambda refs, **_: (refs, []) if all(refs) else ([], refs),
        get=lambda refs, timeout: refs,
        exceptions=SimpleNamespace(GetTimeoutError=TimeoutError, RayError=RuntimeError),
    )
    monkeypatch.setattr("oomph.run.engine.ray_seats._PLACE_SECONDS", 0.0)
    monkeypatch.setattr(Seats, "_actor", lambda *_: seat)
    assert len(Seats(ray, "local", WantedSeats()).take(1, 8)) == 4
    assert asked == [[1] * 8, [1] * 4]


def test_restart_waits_for_as_many_workers_as_before_but_not_forever():
    assert least_wanted(1, 3, 0.0) == 3
    assert least_wanted(1, 3, REUNION_SECONDS) == 1
    assert least_wanted(2, 0, 0.0) == 2


@pytest.mark.parametrize(
    ("version", "why"),
    [("2.60.0", ""), ("1.13.0", "has Ray 1.13.0, and oomph supports Ray 2: "), (None, "has no Ray: ")],
)
def test_missing_and_other_versions_of_ray_are_named_with_the_command(monkeypatch, version, why):
    def found(name: str) -> str:
        if version is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return version

    monkeypatch.setattr(importlib.metadata, "version", found)
    said = why_no_ray()
    assert why in said
    assert said.endswith('-m pip install "oomph[ray]"') is bool(why)


def test_address_is_tried_first():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        closed = f"127.0.0.1:{taken.getsockname()[1]}"
        assert why_not_reached(closed) == f"no Ray cluster answers at {closed}: Connection refused"
        assert "no Ray cluster answers at ray://" in why_not_reached(f"ray://{closed}")
        taken.listen()
        assert why_not_reached(closed) == ""
    assert why_not_reached("auto") == why_not_reached("local") == why_not_reached("") == ""
    assert "no Ray cluster answers" in why_not_reached("127.0.0.1:99999999")


def test_workers_get_tensorflows_variables_and_no_secrets():
    environ = {
        "TF_CONFIG": "{}",
        "TF_XLA_FLAGS": "a",
        "KERAS_BACKEND": "b",
        "XLA_FLAGS": "c",
        "TOKEN": "d",
        "PATH": "e",
    }
    assert passed_on(environ) == {"TF_XLA_FLAGS": "a", "KERAS_BACKEND": "b", "XLA_FLAGS": "c"}
