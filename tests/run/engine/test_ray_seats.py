"""What is decided about Ray without Ray: shares of GPUs, versions, addresses."""

from __future__ import annotations

import importlib.metadata
import socket

import pytest

from oomph.run.engine.ray_engine import passed_on
from oomph.run.engine.ray_seats import NoSeatError, gpus_each, why_no_ray, why_not_reached


@pytest.mark.parametrize(
    ("nodes", "workers", "each"),
    [([0, 0], 2, 0), ([8], 4, 2), ([4, 2], 2, 2), ([3, 3], 4, 1), ([4, 4], 2, 4), ([1, 1, 1], 2, 1), ([], 1, 0)],
)
def test_workers_get_as_many_gpus_as_fit_on_the_nodes(nodes, workers, each):
    assert gpus_each(nodes, workers) == each


def test_workers_without_a_gpu_each_are_refused():
    with pytest.raises(NoSeatError, match="3 workers need a GPU each, and the cluster has 2: start fewer workers"):
        gpus_each([1, 1], 3)


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
