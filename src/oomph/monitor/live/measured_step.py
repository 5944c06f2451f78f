"""MeasuredStep: Keras' own train function, with a meter that counts what it does."""

from __future__ import annotations

from typing import Any

from oomph.monitor.live.meter import Meter


class MeasuredStep:
    """Stands in for `model.train_function` while a fit is measured.

    A callback for each batch would see less: Keras calls it from another thread, after it has waited for the device.
    """

    def __init__(self, model: Any, step: Any, meter: Meter) -> None:
        self._model, self.step, self._meter = model, step, meter

    def __call__(self, iterator: Any) -> Any:
        logs = self.step(iterator)
        self._meter.count(self._model.steps_per_execution, logs)
        return logs

    def __getattr__(self, name: str) -> Any:
        return getattr(self.step, name)
