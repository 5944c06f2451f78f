"""Source: where the batches of a loop come from, iterated as a `for` statement would. Needs no TensorFlow."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any


class Source:
    """The data of a loop.

    Args:
        dataset: any iterable; a Keras PyDataset; or a function without arguments that returns an iterable, called for
            each epoch.

    Raises:
        TypeError: if it is none of these.
    """

    def __init__(self, dataset: Any) -> None:
        kind = type(dataset)
        self.dataset = dataset
        self.is_one_pass = hasattr(kind, "__next__")
        self.is_py_dataset = _is_py_dataset(dataset)
        self.is_function = False
        if isinstance(dataset, (str, bytes, dict)):
            raise TypeError(f"dataset is a {kind.__name__}: steps needs something that yields batches")
        if not (self.is_py_dataset or hasattr(kind, "__iter__") or hasattr(kind, "__getitem__")):
            if not callable(dataset):
                raise TypeError(f"dataset is a {kind.__name__}, which cannot be iterated over")
            self.is_function = True

    def begin(self) -> Iterator[Any]:
        """Start another pass over the data; a one-pass iterator continues from where it is."""
        if self.is_py_dataset:
            return _of_py_dataset(self.dataset)
        return iter(self.dataset() if self.is_function else self.dataset)

    def length(self) -> int | None:
        """The number of batches in an epoch; None if the data do not know it."""
        if self.is_one_pass or self.is_function:
            return None
        if self.is_py_dataset:
            number = self.dataset.num_batches
            return None if number is None else int(number)
        try:
            if hasattr(self.dataset, "cardinality"):  # of tf.data: negative when it is infinite or not known
                number = self.dataset.cardinality
                number = int(number() if callable(number) else number)
                return number if number >= 0 else None
            return len(self.dataset)
        except Exception:  # a length that cannot be read counts as unknown
            return None


def _is_py_dataset(dataset: Any) -> bool:
    """True if it is a Keras PyDataset, which serves batches by number and is notified of epochs."""
    return (
        any(kind.__name__ == "PyDataset" and kind.__module__.startswith("keras.") for kind in type(dataset).__mro__)
        and "keras" in sys.modules
    )


def _of_py_dataset(dataset: Any) -> Iterator[Any]:
    if hasattr(dataset, "on_epoch_begin"):  # not yet in Keras 3.5
        dataset.on_epoch_begin()
    for number in range(dataset.num_batches):
        yield dataset[number]
    dataset.on_epoch_end()
