"""Injects, in the script process, the fault that `oomph rehearse` requests, at the requested step.

The faults are as real as possible without harming the machine: real signals, a real refusal by TensorFlow's allocator,
a real flipped bit in a checkpoint. Only the full disk and the lost GPU are simulated.
"""

from __future__ import annotations

import errno
import hashlib
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import tensorflow as tf

from oomph import testing
from oomph.checkpoint.container import TENSORS
from oomph.journal.events import RehearsalEnded, RehearsedFault
from oomph.keras_bridge.models import optimizer_variables_of
from oomph.protocol.handover import Injection, has_fired, mark_fired
from oomph.resume.training.fits import Fits


def install(fits: Fits) -> None:
    """Prepare the fault that a rehearsal requests; does nothing outside a rehearsal."""
    injection, session = Injection.read(), fits.session
    if injection is None or session.board is None or session.run_dir is None:
        return
    testing.install(_FaultInjection(fits, injection, session.run_dir))
    if injection.fault == "lost-gpu" and has_fired(session.run_dir):
        _hide_a_gpu()


class _FaultInjection(testing.Injector):
    """Injects the fault of one rehearsal, and tracks whether it has struck."""

    def __init__(self, fits: Fits, injection: Injection, run_dir: Path) -> None:
        self._fits, self._injection, self._run_dir = fits, injection, run_dir
        self._room: int | None = None
        """The maximum number of samples that fit into the simulated memory; None until it has run out."""
        self._is_full = self._is_full_disk = False

    def steps_committed(self, steps: int) -> None:
        """Cause the fault that is due between two steps, or end the rehearsal."""
        injection = self._injection
        if injection.stop is not None and steps >= injection.stop:
            self._stop()
        needed = self.fit if injection.fault == "nan" else self._fits.running
        is_possible = needed is not None or injection.fault in _IN_ANY_LOOP
        if injection.fault in _AT_A_BORDER and is_possible and self._is_time(steps):
            self._fire()
            _AT_A_BORDER[injection.fault](self)

    def refuses_full_batch(self, samples: int | None) -> bool:
        """True if this step must run out of memory; then micro-batches larger than half of its batch also fail."""
        is_due = self._injection.fault == "oom" and self.fit is not None and self._is_time(self._fits.steps)
        if is_due:
            self._fire()
            self._is_full = True
        return is_due

    def refuses_micro_batch(self, samples: int, batch: int) -> bool:
        """True if the micro-batch is larger than half of the batch that failed."""
        if self._is_full and self._room is None:
            self._room = max(1, batch // 2)
        return self._room is not None and samples > self._room

    def refuses_plain_step(self) -> bool:
        """True if a plain step must run out of memory, as the requested step and all later ones must."""
        if self._injection.fault == "oom" and self._is_time(self._fits.steps):
            self._fire()
            self._is_full = True
        return self._is_full

    def writes_tensor(self) -> None:
        """Raise OSError if the simulated disk is full; called before each tensor is written."""
        if self._is_full_disk:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def fill_disk(self) -> None:
        """Treat the disk as full from now on."""
        self._is_full_disk = True

    @property
    def run_dir(self) -> Path:
        """The run directory."""
        return self._run_dir

    @property
    def fit(self) -> Any:
        """The running fit; None in a custom loop."""
        running = self._fits.running
        return running if hasattr(running, "checkpoints") else None

    def _is_time(self, steps: int) -> bool:
        return steps >= self._injection.step and not has_fired(self._run_dir)

    def _fire(self) -> None:
        mark_fired(self._run_dir)
        self._fits.note(RehearsedFault(fault=self._injection.fault))
        self._fits.say(f"rehearsal: injecting {self._injection.fault} now")

    def _stop(self) -> NoReturn:
        """Record the training state, and exit the completed rehearsal with code 0."""
        fit = self.fit
        facts: dict[str, Any] = {} if fit is None else {"state": _digest(fit.model), "loss": _loss(fit.model)}
        self._fits.note(RehearsalEnded(**facts))
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def _kill(rehearsed: _FaultInjection) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _abort(rehearsed: _FaultInjection) -> None:
    os.abort()


def _hang(rehearsed: _FaultInjection) -> None:
    while True:
        time.sleep(3600)


def _lose_gpu(rehearsed: _FaultInjection) -> None:
    """Exit as TensorFlow does when a device has fallen off the bus: a check fails, and nothing is saved."""
    os.abort()


def _turn_nan(rehearsed: _FaultInjection) -> None:
    if rehearsed.fit is not None:
        weight = rehearsed.fit.model.trainable_variables[0]
        weight.assign(np.full(weight.shape, np.nan))


def _fill_disk(rehearsed: _FaultInjection) -> None:
    rehearsed.fill_disk()


def _corrupt_checkpoint(rehearsed: _FaultInjection) -> None:
    """Flip a bit of the latest checkpoint, then die, so that a restart reads it."""
    if rehearsed.fit is not None:
        rehearsed.fit.checkpoints.settle(wait=True)
    found = sorted((rehearsed.run_dir / "checkpoints").glob("step-*"))
    for folder in found[-1:]:
        path = folder / TENSORS
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    os.kill(os.getpid(), signal.SIGKILL)


_AT_A_BORDER: dict[str, Callable[[_FaultInjection], None]] = {
    "kill": _kill,
    "abort": _abort,
    "hang": _hang,
    "lost-gpu": _lose_gpu,
    "nan": _turn_nan,
    "disk-full": _fill_disk,
    "corrupt-checkpoint": _corrupt_checkpoint,
}


_IN_ANY_LOOP = ("kill", "abort", "hang", "lost-gpu")
"""The faults that need neither a known model nor a checkpoint."""


def _hide_a_gpu() -> None:
    """Hide the lost GPU in the next attempt."""
    try:
        tf.config.set_visible_devices(tf.config.list_physical_devices("GPU")[1:], "GPU")
    except (RuntimeError, ValueError):
        pass  # the script used the GPU before importing Keras' trainer


def _digest(model: Any) -> str:
    digest = hashlib.sha256()
    for variable in [*model.variables, *optimizer_variables_of(model)]:
        digest.update(np.ascontiguousarray(variable.numpy()).tobytes())
    return digest.hexdigest()


def _loss(model: Any) -> float | None:
    """Return the loss of this epoch so far, or the last epoch's loss if no step of this one is done."""
    try:
        trackers = [metric for metric in model.metrics if metric.name == "loss"]
        if any(int(tracker.count) == 0 for tracker in trackers):  # reset for the new epoch, so its result would be 0
            return float(model.history.history["loss"][-1])
        return float(model.get_metrics_result()["loss"])
    except Exception:  # a custom train_step may report anything
        return None
