"""Gets one batch as `fit` would use it, and the structure of such a batch at a different size."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from oomph.errors import ExamineError
from oomph.keras_bridge.names.keras3 import KERAS
from oomph.planning.live.readable import readable
from oomph.reach.script_output import in_words as error_in_words

_EPOCH_ARGUMENTS = ("x", "y", "sample_weight", "batch_size", "steps_per_epoch", "class_weight")


def first_batch(model: Any, arguments: Mapping[str, Any]) -> Any:
    """Return the first batch of a fit called with these arguments, as Keras passes it to `train_step`.

    Raises:
        ExamineError: the data yields no batch, or fails.
    """
    try:
        return next(iter(dataset_of(model, arguments)))
    except StopIteration:
        raise ExamineError("the data passed to fit does not yield any batches") from None
    except ExamineError as error:
        raise ExamineError(f"the data passed to fit does not yield any batches: {error}") from None
    except Exception as error:  # the user's own data may raise anything
        raise ExamineError(f"the data passed to fit does not yield any batches: {error_in_words(error)}") from error


def dataset_of(model: Any, arguments: Mapping[str, Any]) -> Any:
    """Return the dataset that Keras creates from the data of a fit with these arguments."""
    given = {name: arguments[name] for name in _EPOCH_ARGUMENTS if arguments.get(name) is not None}
    if isinstance(given.get("x"), tf.data.Dataset):
        given["x"] = readable(given["x"]).dataset
        if given["x"] is None:
            raise ExamineError("it was not read, since the pipeline's buffers are too large for this machine")
    epochs = KERAS.epochs.value()(
        shuffle=False, distribute_strategy=model.distribute_strategy, steps_per_execution=1, **given
    )
    return KERAS.distributed_dataset.of(epochs)


def array_sizes(arguments: Mapping[str, Any], on_gpu: bool = False) -> list[int]:
    """Return the sizes, in bytes, of the NumPy arrays passed to fit, as they occupy the device throughout training.

    Keras creates one tensor per array. TensorFlow puts these tensors on the GPU if there is one, except for int32.
    Floating-point numbers are converted to `floatx`.
    """
    import keras

    width = tf.as_dtype(keras.config.floatx()).size
    given = [arguments.get(name) for name in ("x", "y", "sample_weight")]
    arrays = [leaf for leaf in tf.nest.flatten(given) if isinstance(leaf, np.ndarray)]
    return [
        leaf.size * (width if leaf.dtype.kind == "f" else leaf.itemsize) for leaf in arrays
        if not (on_gpu and leaf.dtype == np.int32)
    ]  # fmt: skip


def bytes_of(batch: Any) -> int:
    """Return the size in bytes of a batch, or of a batch described by a specification."""
    return sum(math.prod(leaf.shape) * leaf.dtype.size for leaf in tf.nest.flatten(batch))


def specification(batch: Any) -> Any:
    """Return the structure of a batch: the shape and type of each part, with all dimensions known.

    Raises:
        ExamineError: a part is ragged or sparse, so its size does not follow from its shape.
    """
    leaves = tf.nest.flatten(batch)
    if any(isinstance(leaf, (tf.RaggedTensor, tf.SparseTensor)) for leaf in leaves):
        raise ExamineError(
            "a batch contains ragged or sparse tensors, whose size does not follow from their shape: plan with "
            "dense ones, such as ragged.to_tensor(shape=(None, LONGEST)) or tf.sparse.to_dense(sparse)"
        )
    return tf.nest.map_structure(lambda part: tf.TensorSpec(part.shape, part.dtype), batch)


def size_of(batch: Any) -> int:
    """Return the number of samples in a batch: the first dimension of its first part."""
    leaves = [leaf for leaf in tf.nest.flatten(batch) if len(leaf.shape)]
    if not leaves:
        raise ExamineError("a batch has no first dimension")
    return int(leaves[0].shape[0])


def resized(spec: Any, size: int, batch: int) -> Any:
    """Return the same structure for `batch` samples: first dimensions of `size` become `batch`."""

    def one(part: Any) -> Any:
        is_per_sample = len(part.shape) > 0 and part.shape[0] == size
        return tf.TensorSpec([batch, *part.shape[1:]] if is_per_sample else part.shape, part.dtype)

    return tf.nest.map_structure(one, spec)


def repeated(batch: Any, size: int, wanted: int) -> Any:
    """Return a batch that repeats the same samples until it has `wanted` of them."""

    def one(part: Any) -> Any:
        if not len(part.shape) or part.shape[0] != size:
            return part
        return tf.gather(part, tf.range(wanted) % size)

    return tf.nest.map_structure(one, batch)
