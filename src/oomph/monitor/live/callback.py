"""Monitor: the Keras callback that watches training outside `oomph run`, and the thread that passes on its findings."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import keras

from oomph.files.oomph_folder import MONITOR, make_own_parents
from oomph.files.opening import FOLDER_MODE
from oomph.monitor.board import TrainingBoard
from oomph.monitor.finding import Finding
from oomph.monitor.live.findings import Alerts, Findings, OfTheRun
from oomph.monitor.live.meter import MeasuredStep, Meter
from oomph.monitor.live.scalars import Scalars
from oomph.monitor.process import SamplerProcess
from oomph.monitor.store import newest
from oomph.script import session
from oomph.terminal.console import say


class Monitor(keras.callbacks.Callback):  # type: ignore[misc]
    """Watches the GPUs, the machine and the training while a fit runs, and reports what goes wrong.

        model.fit(dataset, epochs=10, callbacks=[oomph.Monitor()])

    A small process alongside the training takes a sample once a second. Each finding is printed to stderr once: a
    memory leak, training that waits for its data, a GPU that throttles or fails, NaN in the weights. Results do not
    change. `oomph run` has its own monitor, so under it, this callback only adds `alert`, `webhook` and `tensorboard`.

    Args:
        folder: where to store the samples; defaults to a new folder in `.oomph/monitor`.
        alert: a function that is called with each finding, in a separate thread. A finding has the attributes `fault`,
            `subject`, `message`, `severity`, `evidence` and `remedy`. If the function raises an exception, that is
            reported once.
        webhook: a URL to which each finding is posted as JSON. Without it, nothing leaves the machine.
        tensorboard: a log directory to which metrics are written every ten seconds, and under `oomph run` each restart;
            defaults to the directory of the fit's `keras.callbacks.TensorBoard` callback, if there is one.

    Raises:
        TypeError: immediately, if `alert` is not callable.
        ValueError: immediately, if `webhook` is not an http or https URL.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str] | None = None,
        alert: Callable[[Finding], object] | None = None,
        webhook: str | None = None,
        tensorboard: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__()
        if alert is not None and not callable(alert):
            raise TypeError(f"alert must be callable, not {alert!r}")
        Alerts(say, False, alert, webhook)  # so that a bad URL raises here, not in the middle of a fit
        self._folder, self._alert, self._webhook = folder, alert, webhook
        self._tensorboard = tensorboard
        self._running: _Running | None = None

    def on_train_begin(self, logs: Any = None) -> None:
        """Start watching. Training continues even if this fails."""
        global _left_running
        if _left_running is not None:
            _left_running.end()  # its fit raised an exception, which Keras does not report to callbacks
        self._running = _left_running = None
        try:
            scalars = _scalars(self, self._tensorboard)
            self._running = _left_running = self._started(scalars)
            self._running.begin(self.model, self.params or {})
        except Exception as error:
            say(f"Monitor: {type(error).__name__}: {error}; training is not being watched")

    def _started(self, scalars: Scalars | None) -> _Running:
        joined = session.current()
        if joined is not None and joined.run_dir is not None:
            if scalars is not None:
                scalars.mark_attempt(joined.run_dir, joined.handover.attempt)
            alerts = Alerts(joined.say, False, self._alert, self._webhook)
            attendant = Attendant(joined.run_dir, OfTheRun(joined.run_dir), alerts, scalars, joined.say)
            return _Running(attendant, Meter(None, joined.say))
        folder = _made(self._folder)
        meter, sampler = Meter(TrainingBoard(folder), say), SamplerProcess(folder, os.getpid())
        alerts = Alerts(say, True, self._alert, self._webhook, under_run=joined is not None)
        return _Running(Attendant(folder, sampler, alerts, scalars, say), meter)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        if self._running is not None:
            self._running.meter.begin_epoch(epoch, steps_per_epoch=(self.params or {}).get("steps"))

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if self._running is not None:
            self._running.meter.end_epoch()

    def _implements_train_batch_hooks(self) -> bool:
        return False

    _implements_test_batch_hooks = _implements_predict_batch_hooks = _implements_train_batch_hooks

    def on_test_begin(self, logs: Any = None) -> None:
        if self._running is not None:
            self._running.meter.pause()

    def on_test_end(self, logs: Any = None) -> None:
        if self._running is not None:
            self._running.meter.go_on()

    def on_train_end(self, logs: Any = None) -> None:
        """Report the last findings, and stop watching."""
        global _left_running
        if self._running is not None:
            self._running.end()
        self._running = _left_running = None


class _Running:
    """The thread and the meter of a fit that is being watched."""

    def __init__(self, attendant: Attendant, meter: Meter) -> None:
        self.meter, self._attendant = meter, attendant
        self._model: Any = None

    def begin(self, model: Any, params: dict[str, Any]) -> None:
        self._attendant.begin()
        if not self.meter.is_off:
            self._model = model
            self.meter.begin(model, params.get("epochs"))
            model.train_function = MeasuredStep(model, _plain(model.train_function), self.meter)

    def end(self) -> None:
        if self._model is not None:
            self._model.train_function = _plain(self._model.train_function)
            self.meter.end()
            self.meter.wait.stop()
        self._attendant.end()


_left_running: _Running | None = None
"""The fit that this process is watching, which may have raised an exception since. A fit nested in another is not
watched separately."""


def _plain(step: Any) -> Any:
    return step.step if isinstance(step, MeasuredStep) else step


def _made(given: str | os.PathLike[str] | None) -> Path:
    """Create the folder for the samples, readable only by this user. Raises OSError if it cannot be created."""
    name = f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
    folder = (make_own_parents(MONITOR) / name if given is None else Path(given)).absolute()
    folder.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
    return folder


def _scalars(own: Monitor, given: str | os.PathLike[str] | None) -> Scalars | None:
    """Return a TensorBoard writer for the given folder or, if there is one, for the fit's TensorBoard callback."""
    if given is not None:
        return Scalars(os.fspath(given))
    boards = (one for one in _callbacks_beside(own) if isinstance(one, keras.callbacks.TensorBoard))
    board = next(boards, None)
    return None if board is None else Scalars(board.log_dir)


def _callbacks_beside(own: Monitor) -> list[Any]:
    """Find all callbacks of the fit in the frames of the callers, since Keras does not pass them to a callback."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        callbacks = getattr(frame.f_locals.get("self"), "callbacks", None)
        if isinstance(callbacks, list) and any(one is own for one in callbacks):
            return callbacks
        frame = frame.f_back
    return []


_LOOK_SECONDS = 1.0
_SCALAR_SECONDS = 10.0
_END_SECONDS = 3.0


class Attendant:
    """A thread that passes on findings while a fit runs, until `end` is called, so that training does not have to.

    Args:
        folder: where the samples are stored.
        findings: the source of the findings.
        alerts: where to send the findings.
        scalars: the writer for TensorBoard, or None.
        say: a function that prints a line.
    """

    def __init__(
        self, folder: Path, findings: Findings, alerts: Alerts, scalars: Scalars | None, say: Callable[[str], object]
    ) -> None:
        self._folder, self._findings, self._alerts, self._say = folder, findings, alerts, say
        self._scalars = scalars
        self._problem = ""
        self._begun_at = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._attend, name="oomph monitor", daemon=True)

    def begin(self) -> None:
        """Start the thread."""
        self._begun_at = time.time()
        self._thread.start()

    def end(self) -> None:
        """Stop the thread, without waiting long for a web address that does not answer."""
        self._over.set()
        self._thread.join(_END_SECONDS)

    def _attend(self) -> None:
        scalars_due = time.monotonic() + _LOOK_SECONDS
        while not self._over.wait(_LOOK_SECONDS):
            self._pass_on()
            if time.monotonic() >= scalars_due and self._write_scalars():
                scalars_due = time.monotonic() + _SCALAR_SECONDS
        self._findings.close()
        self._pass_on()
        self._write_scalars()
        if self._scalars is not None:
            self._scalars.close()

    def _pass_on(self) -> None:
        self._alerts.take(self._findings.changes())
        if self._findings.problem != self._problem:
            self._problem = self._findings.problem
            if self._problem:
                self._say(f"monitor: {self._problem}")

    def _write_scalars(self) -> bool:
        """Write the metrics for TensorBoard. False if there are none yet."""
        sample = None if self._scalars is None else newest(self._folder)
        if self._scalars is None or sample is None or sample.time < self._begun_at:
            return False  # the samples of an earlier attempt are in the same folder
        try:
            return self._scalars.write(sample)
        except Exception as error:  # e.g. a full disk or a read-only folder
            self._scalars = None
            self._say(f"metrics are no longer written for TensorBoard: {type(error).__name__}: {error}")
            return False
