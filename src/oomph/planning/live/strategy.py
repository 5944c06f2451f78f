"""Plans training under a strategy: determines the replicas that share a batch, and the share of one of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from oomph.errors import ExamineError
from oomph.keras_bridge.batch import replicas as of_strategy
from oomph.keras_bridge.workers import name_of
from oomph.planning.live import samples
from oomph.planning.live.flat_graph import Elsewhere
from oomph.planning.plan import PlannedReplicas
from oomph.reach.request import ON_BATCH

_MIRRORED = (tf.distribute.MirroredStrategy, tf.distribute.MultiWorkerMirroredStrategy)

_OF_ANOTHER = re.compile(r"(?:\A|/)(?:replica|update)_[1-9]\d{0,3}(?:_\d{1,4})?/")
"""Matches the scopes that TensorFlow uses for all replicas but the first.

Source: tensorflow/python/distribute/mirrored_run.py and mirrored_strategy.py.
"""


@dataclass(frozen=True)
class SharedBatch:
    """The first batch of a training call, and the share of it to plan."""

    share: Any
    """The first replica's share, as passed to `train_step`."""
    size: int
    """The number of samples in the whole batch."""
    size_bytes: int
    """The size in bytes of the whole batch."""
    replicas: PlannedReplicas


def shared(strategy: Any, batch: Any) -> SharedBatch:
    """Divide a batch as `fit` distributes it; no replica gets more than the first."""
    parts = of_strategy.Replicas(strategy).local(batch)
    return SharedBatch(
        parts[0], sum(map(samples.size_of, parts)), sum(map(samples.bytes_of, parts)), PlannedReplicas(len(parts))
    )


def check(strategy: Any, kind: str) -> None:
    """Reject several replicas unless each has a copy of the model, all are on this machine, and they share each batch.

    Raises:
        ExamineError: the replicas cannot be planned; the message says why.
    """
    count = int(strategy.num_replicas_in_sync)
    if count == 1:
        return
    name = name_of(strategy)
    if not isinstance(strategy, _MIRRORED):
        raise ExamineError(f"training under {name} with several replicas cannot be planned")
    if count > len(strategy.extended.worker_devices):
        raise ExamineError(f"training under {name} with several workers cannot be planned")
    if kind == ON_BATCH:
        raise ExamineError(
            "train_on_batch gives each of several replicas the whole batch, which cannot be planned: call fit, or plan "
            "without the strategy"
        )


def elsewhere(strategy: Any) -> Elsewhere | None:
    """Return a function that is True for operations of replicas other than the first; None for a single replica.

    A script may specify GPUs that this machine lacks. TensorFlow then places variables on the CPU, and updates
    alongside them, so their devices do not reveal which replica they belong to.
    """
    if strategy.num_replicas_in_sync == 1:
        return None
    devices = [str(device) for device in strategy.extended.worker_devices]
    here = [device.name for device in tf.config.list_logical_devices()]
    others, are_here = frozenset(devices[1:]), all(device.endswith(tuple(here)) for device in devices)

    def is_elsewhere(operation: Any) -> bool:
        return operation.device in others or (not are_here and _OF_ANOTHER.search(operation.name) is not None)

    return is_elsewhere


def can_measure_one(strategy: Any, device: str) -> bool:
    """True if this device counts the memory of one replica alone. All CPU devices share one allocator."""
    if strategy.num_replicas_in_sync == 1:
        return True
    return device.startswith("GPU") and str(strategy.extended.worker_devices[0]).endswith(f":{device}")


def can_be_changed(is_xla: bool, replicas: PlannedReplicas) -> bool | None:
    """True if XLA compiles the step; None if it cannot, because variables are on several devices."""
    return None if replicas.count > 1 and not is_xla else is_xla


def note(strategy: Any, batch: int) -> str:
    """State what the estimates leave out if another machine would give the strategy more replicas; empty otherwise."""
    if not isinstance(strategy, _MIRRORED) or strategy.num_replicas_in_sync > 1:
        return ""
    return (
        f"{name_of(strategy)} has one replica here, so the estimates are for one GPU with the whole batch. With N GPUs "
        f"each gets 1/N of it: --batch {-(-batch // 4)} plans each of 4 GPUs' share, without the memory needed to sum "
        "their gradients."
    )
