"""A training under a strategy: how many replicas share its batch, and what one of them takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from oomph.errors import ExamineError
from oomph.memory.replicas import Replicas
from oomph.preflight.facts.fit import ON_BATCH
from oomph.tensorflow.batch import replicas as of_strategy
from oomph.tensorflow.planning import samples

_MIRRORED = (tf.distribute.MirroredStrategy, tf.distribute.MultiWorkerMirroredStrategy)


@dataclass(frozen=True)
class Shared:
    """The first batch of a training, and the share of it that is planned."""

    share: Any
    """What the first replica takes, as `train_step` gets it."""
    size: int
    """The samples of the whole batch."""
    replicas: Replicas


def shared(strategy: Any, batch: Any) -> Shared:
    """What the first replica takes of a batch as `fit` distributes it. No replica takes more."""
    parts = of_strategy.Replicas(strategy).local(batch)
    return Shared(parts[0], sum(samples.size_of(part) for part in parts), Replicas(len(parts)))


def check(strategy: Any, kind: str) -> None:
    """Refuse several replicas that do not hold a model each, are not all here, or do not share their batches.

    Raises:
        ExamineError: why.
    """
    count = int(strategy.num_replicas_in_sync)
    if count == 1:
        return
    name = type(strategy).__name__
    if not isinstance(strategy, _MIRRORED):
        raise ExamineError(f"a training under {name} with several replicas is not planned")
    if count > len(strategy.extended.worker_devices):
        raise ExamineError(f"a training under {name} with several workers is not planned")
    if kind == ON_BATCH:
        raise ExamineError(
            "train_on_batch gives each of several replicas the whole batch, which is not planned: call fit, or plan "
            "without the strategy"
        )


def elsewhere(strategy: Any) -> list[str]:
    """The devices of all replicas but the first."""
    if strategy.num_replicas_in_sync == 1:
        return []
    return [str(device) for device in strategy.extended.worker_devices[1:]]


def can_measure_one(strategy: Any, device: str) -> bool:
    """Whether what this device counts in a real step is of one replica. All CPU devices share one allocator."""
    if strategy.num_replicas_in_sync == 1:
        return True
    return device.startswith("GPU") and str(strategy.extended.worker_devices[0]).endswith(f":{device}")


def can_be_changed(is_xla: bool, replicas: Replicas) -> bool | None:
    """Whether XLA compiles the step; None where it does not and cannot: it refuses variables of several devices."""
    return None if replicas.count > 1 and not is_xla else is_xla


def note(strategy: Any, batch: int) -> str:
    """What the figures leave out if the strategy would have more replicas elsewhere, as a sentence; else empty."""
    if not isinstance(strategy, _MIRRORED) or strategy.num_replicas_in_sync > 1:
        return ""
    return (
        f"{type(strategy).__name__} has one replica here, so the figures are for one GPU with the whole batch. With N "
        f"GPUs each takes 1/N of it: --batch {-(-batch // 4)} plans the share of each of 4 GPUs, without what adding "
        "up their gradients takes."
    )
