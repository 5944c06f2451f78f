"""What Keras knows of its losses: the mean of the epoch that it shows, and the sums behind it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from oomph.keras_bridge.names import support
from oomph.keras_bridge.names.keras3 import KERAS
from oomph.keras_bridge.names.row import Feature


class Losses:
    """Reads the loss of one model. A reading waits for the step that runs on the device.

    Keras shows the mean of the epoch, in which a bad batch soon disappears. The sums behind that mean tell the mean
    since the last reading, and the number of samples.
    """

    def __init__(self, model: Any) -> None:
        self._tracker = None if support.lacks(Feature.LOSS) else KERAS.loss_tracker.get(model)
        self._total = self._count = 0.0
        self._is_training = True
        """False once an evaluation has used the sums for itself."""
        self.examples = 0.0
        """Samples since the fit began; 0 where the model does not count them."""

    def begin_epoch(self) -> None:
        """Keras has set its sums to 0."""
        self._total = self._count = 0.0
        self._is_training = True

    def end_epoch(self) -> None:
        """From now on, and until the next epoch, the sums are those of an evaluation."""
        self._is_training = False

    def values(self, logs: Any) -> dict[str, float | None]:
        """The metrics of the loss.

        Args:
            logs: what the last step returned.
        """
        shown = _number(logs.get("loss")) if isinstance(logs, Mapping) else None
        recent = self._recent()
        found = [value for value in (shown, recent) if value is not None]
        broken = not all(map(math.isfinite, found))
        return {
            "loss": shown,
            "recent_loss": recent,
            "not_finite_loss": float(broken) if found else None,
        }

    def _recent(self) -> float | None:
        if not self._is_training or self._tracker is None or len(getattr(self._tracker, "variables", ())) != 2:
            return None
        total, count = _number(self._tracker.total), _number(self._tracker.count)
        if total is None or not count:
            return None  # a step of the user's own, which does not use it
        if count < self._count:  # somebody has set it to 0
            self._total = self._count = 0.0
        samples, sum_of_them = count - self._count, total - self._total
        self._total, self._count = total, count
        self.examples += samples
        return sum_of_them / samples if samples else None


def _number(value: Any) -> float | None:
    try:
        return None if value is None else float(value)
    except (TypeError, ValueError):
        return None  # more than one number
