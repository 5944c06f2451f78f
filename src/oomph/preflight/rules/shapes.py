"""Shapes compared and in words."""

from __future__ import annotations

from oomph.preflight.facts.data import Data
from oomph.preflight.facts.model import Shape

BATCHING = ("batch", "padded_batch", "ragged_batch", "rebatch")


def in_words(shape: Shape | None) -> str:
    """A shape as Keras prints it: "(None, 28, 28)"."""
    if shape is None:
        return "an unknown shape"
    return str(tuple(shape))


def agree(one: Shape, other: Shape) -> bool:
    """Whether two shapes may be the same; None agrees with any size."""
    return len(one) == len(other) and all(a is None or b is None or a == b for a, b in zip(one, other, strict=True))


def batching_stages(data: Data) -> int:
    """How many stages of the pipeline make batches."""
    return sum(stage.kind in BATCHING for stage in data.stages)


def is_single_sample(data: Data) -> bool:
    """Whether each element of a pipeline is certainly one sample: no stage makes batches, and a target is a scalar."""
    return bool(data.stages) and not batching_stages(data) and any(part.shape == () for part in data.of("y"))
