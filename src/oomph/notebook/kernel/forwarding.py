"""Forwards the signals of a Jupyter server or VS Code to the kernel."""

from __future__ import annotations

import os
import signal

from oomph.process.process_group import Patience, ProcessGroup
from oomph.run.hang.watch import Watch
from oomph.run.supervisor.stop_requests import Arrival, Forwarding, Signals

STOP_SECONDS = 2.0
"""The time that a kernel may take to save after SIGTERM. jupyter_client sends SIGKILL 2.5 s after SIGTERM."""
_STOPS = (signal.SIGTERM, signal.SIGHUP)


class KernelSignals(Signals):
    """The supervisor's signals. The kernel starts with SIGINT ignored, as ipykernel itself ignores it between cells.

    An interrupt that arrives while the kernel starts, when there is nothing to interrupt, must not end it.
    """

    def restore_in_child(self) -> None:
        """Restore the signals between fork and exec, but ignore SIGINT."""
        super().restore_in_child()
        signal.signal(signal.SIGINT, signal.SIG_IGN)


class KernelForwarding(Forwarding):
    """Forwards each SIGINT to the kernel's process, once and as it is, and other signals as to a script.

    Jupyter's server signals the supervisor's group, and VS Code its PID. This makes no difference to the kernel, which
    is in another group.
    """

    def __init__(
        self, signals: Signals, group: ProcessGroup, patience: Patience, watch: Watch | None, since: float
    ) -> None:
        self._asked = any(arrival.signum in _STOPS for arrival in signals.queue)
        super().__init__(signals, group, patience, watch, since)

    def obey(self, arrival: Arrival) -> None:
        """After a request to stop, schedule the kernel to be killed unless it ends in time. Pass SIGCONT on."""
        if arrival.signum in _STOPS:
            self._group.kill_by(arrival.at + STOP_SECONDS)
        elif arrival.signum == signal.SIGCONT:
            self._group.send(signal.SIGCONT)

    @property
    def was_stopped(self) -> bool:
        """True if Jupyter asked the kernel to end. An interrupt does not count."""
        return self._asked

    def _forward(self, signum: int) -> None:
        if signum == signal.SIGINT:
            self._interrupt()
            return
        self._asked = self._asked or signum in _STOPS
        super()._forward(signum)

    def _interrupt(self) -> None:
        try:
            os.kill(self._group.leader, signal.SIGINT)
        except ProcessLookupError:
            pass  # it has just died; the supervisor will say so
