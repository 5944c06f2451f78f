"""Measures a fit as `oomph.Monitor` does, without its processes and threads."""

from __future__ import annotations

import keras

from oomph.monitor.board import BoardReader, TrainingBoard
from oomph.monitor.live.meter import MeasuredStep, Meter

BATCHES = 16


class Measured(keras.callbacks.Callback):
    """The board's contents at the end of the fit are in `values` and `baselines`."""

    def __init__(self, folder):
        super().__init__()
        self.problems = []
        self.meter = Meter(TrainingBoard(folder), self.problems.append)
        self._reader = BoardReader(folder)

    def on_train_begin(self, logs=None):
        self.meter.begin(self.model, self.params["epochs"])
        self.model.train_function = MeasuredStep(self.model, self.model.train_function, self.meter)

    def on_epoch_begin(self, epoch, logs=None):
        self.meter.begin_epoch(epoch, steps_per_epoch=self.params["steps"])

    def on_epoch_end(self, epoch, logs=None):
        self.meter.end_epoch()

    def on_test_begin(self, logs=None):
        self.meter.pause()

    def on_test_end(self, logs=None):
        self.meter.go_on()

    def on_train_end(self, logs=None):
        self.values, self.baselines = self._reader.read()
        self.meter.end()
        self.meter.wait.stop()
