"""Data loaders that Keras reads besides its own: of Grain and of PyTorch, neither of which is imported here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np

_LOADERS = (
    *(("grain", name) for name in ("MapDataset", "IterDataset", "DataLoader")),
    ("torch.utils.data", "DataLoader"),
)
"""As Keras knows them: a part of the module's name, and the name of a class."""


def is_loader(x: Any) -> bool:
    """True for data of Grain, and a DataLoader of PyTorch."""
    return any(
        kind.__name__ == name and module in kind.__module__ for kind in type(x).__mro__ for module, name in _LOADERS
    )


def batches_of(loader: Any) -> Iterator[Any]:
    """Its batches, as Keras gives them to a model."""
    for batch in loader:
        arrays = keras.tree.map_structure(_as_array, batch)
        yield keras.tree.lists_to_tuples(arrays)


def length_of(loader: Any) -> int | None:
    """How many batches an epoch has; None where Keras does not know it either: of Grain, and of streams."""
    data = getattr(loader, "dataset", None)
    return len(loader) if hasattr(data, "__len__") else None


def _as_array(part: Any) -> Any:
    if part is None:
        return None
    return np.asarray(part.cpu() if hasattr(part, "cpu") else part)
