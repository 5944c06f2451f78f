"""The cluster that several workers form: ports, shares of the GPUs, environment."""

from __future__ import annotations

import json
import socket

import pytest

from oomph.errors import UsageError
from oomph.run.supervisor.cluster import Cluster, new_cluster, share_of, why_not_formed


def test_ports_differ_and_are_free() -> None:
    cluster = new_cluster(8, ())
    assert len(set(cluster.addresses)) == 8
    for address in cluster.addresses:
        with socket.socket() as one:
            one.bind(("127.0.0.1", int(address.rpartition(":")[2])))


def test_worker_learns_its_place_and_leaves_the_gpus_alone_if_there_are_none() -> None:
    environ = Cluster(("127.0.0.1:1", "127.0.0.1:2")).environ_of(1)
    assert environ.keys() == {"TF_CONFIG"}
    assert json.loads(environ["TF_CONFIG"]) == {
        "cluster": {"worker": ["127.0.0.1:1", "127.0.0.1:2"]},
        "task": {"type": "worker", "index": 1},
    }


def test_each_worker_has_its_own_gpus_and_the_same_number() -> None:
    gpus = [f"GPU-{number}" for number in range(5)]
    assert [share_of(gpus, rank, 2) for rank in range(2)] == [("GPU-0", "GPU-1"), ("GPU-2", "GPU-3")]
    assert new_cluster(5, gpus).environ_of(4)["CUDA_VISIBLE_DEVICES"] == "GPU-4"


def test_too_few_gpus_are_refused_with_what_to_do() -> None:
    with pytest.raises(UsageError, match=r'needs 3 GPUs, one for each worker, but the script sees 2: .*="""?'):
        new_cluster(3, ["a", "b"])


def test_listener_at_the_address_is_noticed() -> None:
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        one.listen()
        cluster = Cluster(tuple(f"127.0.0.1:{each.getsockname()[1]}" for each in (one, other)))
        assert (cluster.is_served(0), cluster.is_served(1)) == (True, False)


def test_notebooks_and_workers_of_others_start_no_workers() -> None:
    assert "notebook" in why_not_formed("notebook", {})
    assert "already one of several workers" in why_not_formed("script", {"TF_CONFIG": "{}"})
    assert why_not_formed("script", {"TF_CONFIG": ""}) == ""
