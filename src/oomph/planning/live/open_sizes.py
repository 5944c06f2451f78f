"""The size that a plan assumes if the model leaves sizes of a sample open, such as the length of a sequence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

Shape = tuple[int | None, ...]


@dataclass(frozen=True)
class OpenSizes:
    """A plan's remarks on sizes of a sample that the model leaves open, one sentence each, or empty."""

    doubt: str = ""
    """The remark that other batches may have other sizes."""
    note: str = ""
    """The remark that the model takes any size, and the data have only one."""


def open_sizes(model: Any, data: Any, batch: Any) -> OpenSizes:
    """The assumptions about the sizes of a sample.

    Args:
        model: the built model.
        data: `x` as `fit` was given it.
        batch: one batch as `train_step` takes it.
    """
    leaves = tf.nest.flatten(batch[0] if isinstance(batch, tuple) else batch)
    taken = _shapes_of_inputs(model, len(leaves))
    said = _shapes_of_data(data, len(leaves))
    axes = [
        (axis, takes, says)
        for leaf, takes, says in zip(leaves, taken, said, strict=True)
        for axis in range(1, len(leaf.shape))
    ]
    shapes = " and ".join(str(tuple(leaf.shape[1:])) for leaf in leaves)
    if any(_may_vary(*each) for each in axes):
        return OpenSizes(
            doubt="the data leave the size of a sample open, so another batch may take more than these figures, which "
            f"are those of samples of shape {shapes}, as in the first batch; give all batches one length, for instance "
            "with padded_shapes in padded_batch, and plan again"
        )
    if any(takes is not None and takes[axis] is None for axis, takes, _ in axes):
        return OpenSizes(
            note=f"The model takes samples of any size; these figures are those of shape {shapes}, as in the data. For "
            "longer ones, plan with data of that length."
        )
    return OpenSizes()


def _may_vary(axis: int, takes: Shape | None, says: tf.TensorShape | None) -> bool:
    """True if other batches may have another size along this axis.

    If the data have no known shape, as from a generator, only axes that the model leaves open count.
    """
    if says is None:
        return False
    if says.rank is None or axis >= says.rank:
        return takes is not None and takes[axis] is None
    return says[axis] is None and (takes is None or takes[axis] is None)


def _shapes_of_inputs(model: Any, count: int) -> Sequence[Shape | None]:
    """The shape of each input as the model declares it; None for an input without a declared shape."""
    inputs = getattr(model, "inputs", None)
    leaves = tf.nest.flatten(inputs) if inputs else []
    return [tuple(leaf.shape) for leaf in leaves] if len(leaves) == count else [None] * count


def _shapes_of_data(data: Any, count: int) -> Sequence[tf.TensorShape | None]:
    """The shape of each input as the data declare it; None for an input whose samples all have one shape."""
    if isinstance(data, tf.data.Dataset):
        spec = data.element_spec
        leaves = tf.nest.flatten(spec[0] if isinstance(spec, tuple) else spec)
        return [leaf.shape for leaf in leaves] if len(leaves) == count else [None] * count
    is_array = all(hasattr(leaf, "shape") or np.isscalar(leaf) for leaf in tf.nest.flatten(data))
    return [None if is_array else tf.TensorShape(None)] * count
