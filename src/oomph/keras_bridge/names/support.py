"""Determines what the installed Keras and TensorFlow support, once the script has imported Keras.

A row that is missing from a table switches off only the features that need it.
"""

from __future__ import annotations

from functools import lru_cache

from oomph.keras_bridge.names.keras3 import KERAS
from oomph.keras_bridge.names.row import Feature, Row, rows_of
from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW


@lru_cache(maxsize=1)
def missing() -> tuple[Row, ...]:
    """Return the rows of both tables that the installed versions lack."""
    return tuple(row for row in (*rows_of(KERAS), *rows_of(TENSORFLOW)) if not row.exists())


def lacks(feature: Feature) -> str:
    """Explain briefly why a feature is switched off, or return an empty string if nothing is missing."""
    without = next((row for row in missing() if feature in row.feature), None)
    return "" if without is None else f"this {without.library} has no {without}"
