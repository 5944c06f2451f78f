"""Forms the cluster of the workers on this machine: their ports, their GPUs, and the environment that tells them so."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import NamedTuple

from oomph.errors import UsageError
from oomph.run.scheduled.allocation import TF_CONFIG
from oomph.terminal.amounts import counted

_HOST = "127.0.0.1"
_CONNECT_SECONDS = 0.2


class Cluster(NamedTuple):
    """The workers of one attempt."""

    addresses: tuple[str, ...]
    """The host and port of each worker, by rank."""
    gpus: tuple[str, ...] = ()
    """The UUIDs of the GPUs that the workers share out, or () to leave them what they see."""

    @property
    def workers(self) -> int:
        """The number of workers."""
        return len(self.addresses)

    def environ_of(self, rank: int) -> dict[str, str]:
        """Return the variables that one worker gets."""
        config = tf_config(self.addresses, rank)
        mine = share_of(self.gpus, rank, self.workers)
        return {TF_CONFIG: config} | ({"CUDA_VISIBLE_DEVICES": ",".join(mine)} if mine else {})

    def is_served(self, rank: int) -> bool:
        """True if somebody listens at a worker's address, as every strategy for several workers does."""
        host, _, port = self.addresses[rank].rpartition(":")
        return not port.isdecimal() or is_anyone_at(host.strip("[]"), int(port))


def tf_config(addresses: Sequence[str], rank: int) -> str:
    """Return the value of TF_CONFIG for one of the workers at these addresses."""
    return json.dumps({"cluster": {"worker": list(addresses)}, "task": {"type": "worker", "index": rank}})


def is_anyone_at(host: str, port: int) -> bool:
    """True unless it is known that nobody listens there."""
    try:
        socket.create_connection((host, port), _CONNECT_SECONDS).close()
    except ConnectionRefusedError:
        return False
    except OSError:
        pass  # unknown
    return True


def new_cluster(workers: int, gpus: Sequence[str]) -> Cluster:
    """Return a cluster on ports that are free now. Raises UsageError if the GPUs do not suffice."""
    if gpus and len(gpus) < workers:
        raise UsageError(
            f"--workers {workers} needs {counted(workers, 'GPU')}, one for each worker, but the script sees"
            f' {len(gpus)}: start fewer workers, or hide the GPUs with CUDA_VISIBLE_DEVICES=""'
        )
    return Cluster(tuple(f"{_HOST}:{port}" for port in _free_ports(workers)), tuple(gpus))


def share_of(gpus: Sequence[str], rank: int, workers: int) -> tuple[str, ...]:
    """Return the GPUs of one worker, the same number for each."""
    each = len(gpus) // workers
    return tuple(gpus[rank * each : (rank + 1) * each])


def why_not_formed(form: str, environ: Mapping[str, str]) -> str:
    """Explain why no workers can be started for a command of this form, or return an empty string if they can."""
    if form == "notebook":
        return "--workers starts a script several times, and a notebook cannot be saved by several: leave it out"
    if environ.get(TF_CONFIG):
        return (
            f"{TF_CONFIG} is set, so this process is already one of several workers: leave out --workers, or unset it"
        )
    return ""


def _free_ports(count: int) -> tuple[int, ...]:
    """Return ports that are free now. All are held until the last one is chosen, so that they differ."""
    with ExitStack() as stack:
        held = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in held:
            each.bind((_HOST, 0))
        return tuple(each.getsockname()[1] for each in held)
