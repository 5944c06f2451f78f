"""ValidationData: recreates the iterators that Keras created over the validation data, when a fit is resumed.

A shuffled dataset draws a seed for each of them. If training and validation data come from the same shuffled dataset,
as with `take` and `skip`, it also draws one for each training iterator. The order of their creation is therefore
recorded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from oomph.checkpoint.container import Checkpoint
from oomph.keras_bridge.names.keras3 import KERAS
from oomph.keras_bridge.pipelines import datasets
from oomph.protocol.reasons import because
from oomph.resume.training.retaking import Watched

READ_AHEAD = because("validation-read-ahead")


class ValidationData:
    """The validation data of one fit, and the iterators created over it.

    Args:
        arguments: the arguments passed to `fit`.
    """

    def __init__(self, arguments: Mapping[str, Any], model: Any) -> None:
        given = arguments.get("validation_data")
        data = given[0] if isinstance(given, (tuple, list)) and given else given
        shuffled = isinstance(data, tf.data.Dataset) and datasets.shuffles(data)
        self._dataset = data if shuffled else None
        self._steps, self._model = arguments.get("validation_steps"), model
        self._data, self._arguments = data if shuffled else given, arguments
        self.is_begun = False
        """True if validation has started, and its step is therefore traced."""
        self.made: list[list[int]] = []
        """The validation iterators: the number of training iterators created before each, and 1 if it was used."""

    def spec(self, epochs: Any) -> Any:
        """Return the element spec of the validation batches, or None if finding out would require reading a batch.

        Args:
            epochs: Keras' epoch iterator over the training data, which has the same structure as the one over
                `validation_split` data.
        """
        if isinstance(self._data, tf.data.Dataset):
            return self._data.element_spec
        plain = self._arguments.get("sample_weight") is None and self._arguments.get("class_weight") is None
        if self._data is None:
            split = self._arguments.get("validation_split")
            return KERAS.distributed_dataset.of(epochs).element_spec if split and plain else None
        arrays = self._data if isinstance(self._data, tuple) else (self._data,)
        if not all(isinstance(each, (np.ndarray, tf.Tensor)) for each in arrays):
            return None
        return KERAS.distributed_dataset.of(type(epochs)(
            distribute_strategy=self._model.distribute_strategy, x=arrays[0], y=arrays[1] if arrays[1:] else None,
            sample_weight=arrays[2] if arrays[2:] else None, shuffle=False,
            batch_size=self._arguments.get("validation_batch_size") or self._arguments.get("batch_size"),
        )).element_spec  # fmt: skip

    def begin_early(self, epochs: Any) -> None:
        """Create Keras' iterator over validation data early if creating it reads a batch to determine its structure.

        Keras would create it at the first validation, after the state is restored. Reading that batch would then draw
        from NumPy's or another global generator once more than in the earlier attempt.

        Args:
            epochs: Keras' epoch iterator over the training data.
        """
        data, arguments = self._arguments.get("validation_data"), self._arguments
        known = (tf.data.Dataset, np.ndarray, tf.Tensor, tuple, list, Iterator)
        if data is None or isinstance(data, known) or KERAS.validation_epochs.get(self._model) is not None:
            return
        made = type(epochs)(
            x=data, batch_size=arguments.get("validation_batch_size") or arguments.get("batch_size"),
            distribute_strategy=self._model.distribute_strategy, steps_per_execution=self._model.steps_per_execution,
            steps_per_epoch=self._steps, shuffle=False,
        )  # fmt: skip
        setattr(self._model, KERAS.validation_epochs.name_on(self._model), made)

    def note_made(self, after: int) -> None:
        """Record a new validation iterator that was created after this many training iterators."""
        if self._dataset is not None:
            self.made.append([after, 0])

    def note_used(self) -> None:
        """Record that the last iterator is used, since Keras creates some from which it never reads a batch."""
        if self.made:
            self.made[-1][1] = 1

    def forget(self) -> None:
        """Forget all iterators because the fit starts over."""
        self.made.clear()

    def catch_up(self, checkpoint: Checkpoint, trained_on: int, watched: Watched) -> None:
        """Create the iterators that an earlier attempt had created by its `trained_on`-th training iterator."""
        wanted = checkpoint.meta.validated_after
        while self._dataset is not None and len(self.made) < len(wanted):
            after, used = map(int, wanted[len(self.made)])
            if after > trained_on:
                return
            self.made.append([after, used])
            iterator = iter(self._distributed())
            if used and not datasets.is_begun_by_making(self._dataset):
                for _ in watched.take(iterator, self._steps, "replaying the validation data of earlier epochs"):
                    pass

    def is_guessed(self, checkpoint: Checkpoint) -> bool:
        """True if the order of the next batches depends on how far ahead TensorFlow has read, which is unknown."""
        used = any(entry[1] for entry in checkpoint.meta.validated_after)
        return used and bool(self._steps) and self._dataset is not None and datasets.repeats_shuffled(self._dataset)

    def _distributed(self) -> Any:
        return self._model.distribute_strategy.experimental_distribute_dataset(self._dataset)
