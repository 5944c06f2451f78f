"""Reads a process's place in a gang from the environment that Slurm, Kubernetes or another launcher has set. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from oomph.errors import UsageError
from oomph.files.oomph_folder import MOST_WORKERS
from oomph.terminal.amounts import counted
from oomph.terminal.message import shown_line

TF_CONFIG = "TF_CONFIG"
_CHIEFS, _WORKER = ("chief", "master"), "worker"
_MOST_HOSTS, _MOST_DIGITS = 4096, 10
_LAST_PORT = 65535
_PART = re.compile(r"(?:[^,\[\]]|\[[^\[\]]*\])+")
_RANGES = re.compile(r"\[([^\[\]]*)\]")


class Allocation(NamedTuple):
    """The place of one process among those that the scheduler starts."""

    scheduler: str
    """The name of the scheduler, for a sentence."""
    job: str
    """The name of the job, the same for all workers and after each restart; "" if unknown."""
    rank: int
    workers: int
    host: str = ""
    """The name under which the others reach this process's machine, or "" if only the network knows it."""
    hosts: tuple[str, ...] = ()
    """The names of all machines of the job, if the scheduler lists them."""
    addresses: tuple[str, ...] = ()
    """The address of each worker by rank, if another launcher has chosen them."""
    starts_together: bool = False
    """True if the scheduler starts all processes at once."""

    @property
    def who(self) -> str:
        """This worker and its machine, for a sentence."""
        return f"worker {self.rank} on {shown_line(self.host) or 'this machine'}"


def allocation_of(environ: Mapping[str, str], workers: int | None, hostname: str) -> Allocation:
    """Return the place of this process. Raises UsageError if no scheduler has given it one.

    Args:
        environ: the environment.
        workers: the number of workers that the user has stated, or None.
        hostname: the name of this machine.
    """
    if environ.get(TF_CONFIG):
        found = _of_tf_config(environ[TF_CONFIG])
    elif environ.get("SLURM_JOB_ID"):
        found = _of_slurm(environ, hostname)
    elif environ.get("JOB_COMPLETION_INDEX"):
        found = _of_kubernetes(environ, workers, hostname)
    else:
        raise UsageError(
            "--engine env forms a gang from what a scheduler gives, and found neither Slurm's SLURM_JOB_ID, nor"
            " Kubernetes' JOB_COMPLETION_INDEX, nor TF_CONFIG: start it with srun or in an Indexed Job"
        )
    if workers is not None and workers != found.workers:
        raise UsageError(f"--workers {workers}: {found.scheduler} has started {counted(found.workers, 'worker')}")
    return found


def _of_slurm(environ: Mapping[str, str], hostname: str) -> Allocation:
    if "SLURM_STEP_ID" not in environ or "SLURM_PROCID" not in environ:
        raise UsageError(
            f"Slurm job {shown_line(environ['SLURM_JOB_ID'])} runs this process once, outside of srun:"
            " start it with srun, once for each worker"
        )
    name = "SLURM_STEP_NUM_TASKS" if "SLURM_STEP_NUM_TASKS" in environ else "SLURM_NTASKS"
    workers = _number(environ, name, 1, MOST_WORKERS)
    nodes = environ.get("SLURM_STEP_NODELIST") or environ.get("SLURM_JOB_NODELIST", "")
    return Allocation(
        scheduler="Slurm",
        job=f"slurm-{_number(environ, 'SLURM_JOB_ID', 0, 2**32)}",
        rank=_number(environ, "SLURM_PROCID", 0, workers - 1),
        workers=workers,
        host=environ.get("SLURMD_NODENAME") or hostname,
        hosts=expanded(nodes),
        starts_together=True,
    )


def _of_kubernetes(environ: Mapping[str, str], workers: int | None, hostname: str) -> Allocation:
    """Return the place of a pod of an Indexed Job, alone or in a JobSet. A pod is called like its Job and its index."""
    if workers is None:
        raise UsageError("Kubernetes does not tell a pod how many there are: add --workers with the Job's completions")
    rank = _number(environ, "JOB_COMPLETION_INDEX", 0, workers - 1)
    job, _, index = hostname.partition(".")[0].rpartition("-")
    is_named_alike = job and index == str(rank)
    return Allocation("Kubernetes", f"kubernetes-{job}" if is_named_alike else "", rank, workers)


def _of_tf_config(text: str) -> Allocation:
    """Return the place that TF_CONFIG describes, as TFJob sets it. Its addresses stay as they are."""
    try:
        config = json.loads(text)
        cluster, task = config["cluster"], config["task"]
        kind, index = str(task["type"]), _index(task["index"])
        chiefs = [each for name in _CHIEFS for each in _addresses(cluster.get(name, []))]
        addresses = (*chiefs, *_addresses(cluster.get(_WORKER, [])))
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        raise UsageError(f"{TF_CONFIG} is set, but describes no cluster and task: correct it, or unset it") from None
    if "ps" in cluster or kind not in (*_CHIEFS, _WORKER):
        raise UsageError(
            f"{TF_CONFIG} describes a {shown_line(kind)} beside parameter servers or an evaluator, which are no gang:"
            " leave out --engine env, and oomph supervises this process alone"
        )
    rank = index + (len(chiefs) if kind == _WORKER else 0)
    if not 0 <= rank < len(addresses) <= MOST_WORKERS:
        raise UsageError(f"{TF_CONFIG} names {kind} {index}, but lists {counted(len(addresses), 'worker')}")
    _check_addresses(addresses)
    host = addresses[rank].rpartition(":")[0]
    return Allocation(TF_CONFIG, "", rank, len(addresses), host, addresses=addresses)


def _index(value: Any) -> int:
    if isinstance(value, bool | float):
        raise TypeError("not an index")
    return int(value)


def _check_addresses(addresses: Sequence[str]) -> None:
    """Raise UsageError if two workers have one address, or one has no port to listen at."""
    for number, address in enumerate(addresses):
        port = address.rpartition(":")[2] if ":" in address else ""
        if not _is_number(port) or not 1 <= int(port) <= _LAST_PORT:
            raise UsageError(f"{TF_CONFIG} lists {shown_line(address)}, which has no port from 1 to {_LAST_PORT}")
        if address in addresses[:number]:
            raise UsageError(f"{TF_CONFIG} lists {shown_line(address)} twice: each worker needs its own address")


def _addresses(listed: Any) -> list[str]:
    if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
        raise TypeError("not a list of addresses")
    return listed


def _number(environ: Mapping[str, str], name: str, least: int, most: int) -> int:
    text = environ.get(name, "")
    if not text.isdecimal() or len(text) > _MOST_DIGITS or not least <= int(text) <= most:
        said = shown_line(text) if text else "not set"
        raise UsageError(f"{name} should be a number from {least} to {most}, and is {said}")
    return int(text)


def _is_number(text: str) -> bool:
    return text.isdecimal() and len(text) <= _MOST_DIGITS


def expanded(nodes: str) -> tuple[str, ...]:
    """Return the names in Slurm's list of nodes, such as "gpu[01-03,7],login", or () if it is not understood."""
    names: list[str] = []
    for part in _PART.findall(nodes):
        names += _expanded(part)
        if len(names) > _MOST_HOSTS:
            return ()
    return tuple(names)


def _expanded(part: str) -> list[str]:
    bracket = _RANGES.search(part)
    if bracket is None:
        return [part] if part else []
    before, after = part[: bracket.start()], part[bracket.end() :]
    names: list[str] = []
    for each in bracket[1].split(","):
        first, dash, last = each.partition("-")
        if not _is_number(first) or (dash and not _is_number(last)):
            return []
        numbers = range(int(first), int(last or first) + 1)
        rests = _expanded(after) or [after]
        if len(numbers) * len(rests) > _MOST_HOSTS:
            return []
        names += [f"{before}{number:0{len(first)}d}{rest}" for number in numbers for rest in rests]
    return names
