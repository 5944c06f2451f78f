"""Determines what the installed Keras and TensorFlow support, once the script has imported Keras.

A row that is missing from a table switches off only the features that need it.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import Any

from oomph.keras_bridge.names.keras3 import KERAS
from oomph.keras_bridge.names.row import Feature, Row, rows_of
from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW

_IN_KERAS_3 = "keras.src.trainers"


def missing(keras: Any = KERAS) -> tuple[Row, ...]:
    """Return the rows of a Keras and of TensorFlow that the installed versions lack.

    Keras 3 is not looked at before the script has imported it, since that would import a part of it.
    """
    return _missing(keras if keras is not KERAS or _IN_KERAS_3 in sys.modules else None)


@lru_cache(maxsize=4)
def _missing(keras: Any) -> tuple[Row, ...]:
    rows = [] if keras is None else rows_of(keras)
    return tuple(row for row in (*rows, *rows_of(TENSORFLOW)) if not row.exists())


def lacks(feature: Feature, keras: Any = KERAS) -> str:
    """Explain briefly why a feature is switched off, or return an empty string if nothing is missing.

    Args:
        keras: the table of the Keras that the feature is for.
    """
    rows = missing() if keras is KERAS else missing(keras)
    without = next((row for row in rows if feature in row.feature), None)
    return "" if without is None else f"this {without.library} has no {without}"
