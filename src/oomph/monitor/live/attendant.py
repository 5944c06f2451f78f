"""Attendant: a thread that passes on what is found while a fit runs, so that the training need not."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

from oomph.monitor.live.alerts import Alerts
from oomph.monitor.live.findings import Findings
from oomph.monitor.live.scalars import Scalars
from oomph.monitor.store import newest

_LOOK_SECONDS = 1.0
_SCALAR_SECONDS = 10.0
_END_SECONDS = 3.0


class Attendant:
    """Looks once a second, until `end`.

    Args:
        folder: where the samples are.
        findings: where findings come from.
        alerts: where they go.
        scalars: TensorBoard's, if they are wanted.
        say: prints a line.
    """

    def __init__(
        self, folder: Path, findings: Findings, alerts: Alerts, scalars: Scalars | None, say: Callable[[str], object]
    ) -> None:
        self._folder, self._findings, self._alerts, self._say = folder, findings, alerts, say
        self._scalars = scalars
        self._problem = ""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._attend, name="oomph monitor", daemon=True)

    def begin(self) -> None:
        """Start the thread."""
        self._thread.start()

    def end(self) -> None:
        """End it; a web address that does not answer is not waited for."""
        self._over.set()
        self._thread.join(_END_SECONDS)

    def _attend(self) -> None:
        scalars_due = time.monotonic() + _LOOK_SECONDS
        while not self._over.wait(_LOOK_SECONDS):
            self._pass_on()
            if time.monotonic() >= scalars_due:
                scalars_due = time.monotonic() + _SCALAR_SECONDS
                self._write_scalars()
        self._findings.close()
        self._pass_on()
        self._write_scalars()
        if self._scalars is not None:
            self._scalars.close()

    def _pass_on(self) -> None:
        for finding in self._findings.findings():
            self._alerts.take(finding)
        if self._findings.problem != self._problem:
            self._problem = self._findings.problem
            if self._problem:
                self._say(f"monitor: {self._problem}")

    def _write_scalars(self) -> None:
        sample = None if self._scalars is None else newest(self._folder)
        if self._scalars is None or sample is None:
            return
        try:
            self._scalars.write(sample)
        except Exception as error:  # a full disk, or a folder that cannot be written
            self._scalars = None
            self._say(f"no figures for TensorBoard any more: {type(error).__name__}: {error}")
