"""Passes the signals of a Jupyter server or of VS Code on to the kernel."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

from oomph.process.process_group import Patience, ProcessGroup
from oomph.run.hang.watch import Watch
from oomph.run.supervisor.stop_requests import Arrival, Forwarding, Signals

STOP_SECONDS = 2.0
"""How long a kernel may take to save after SIGTERM. jupyter_client sends SIGKILL 2.5 s after it."""


class KernelSignals(Signals):
    """The supervisor's signals. The kernel starts with SIGINT ignored, until ipykernel takes care of it.

    An interrupt that arrives while the kernel starts must not end it.
    """

    def restore_in_child(self) -> None:
        """Prepare the kernel's signals between fork and exec."""
        super().restore_in_child()
        signal.signal(signal.SIGINT, signal.SIG_IGN)


class KernelForwarding(Forwarding):
    """Forwards each interrupt once, as an interrupt, to the kernel's process; any other signal as to a script.

    It makes no difference whether the server signals the group of the supervisor or VS Code its PID, since the kernel
    is in another group. An interrupt that arrives before the kernel is ready waits until it is.
    """

    def __init__(
        self,
        signals: Signals,
        group: ProcessGroup,
        patience: Patience,
        watch: Watch | None,
        since: float,
        is_ready: Callable[[int], bool],
    ) -> None:
        """Start forwarding. `is_ready(pid)` is True once the kernel handles interrupts."""
        self._is_ready, self._held = is_ready, False
        self._asked = any(arrival.signum in (signal.SIGTERM, signal.SIGHUP) for arrival in signals.queue)
        super().__init__(signals, group, patience, watch, since)

    def attend(self) -> None:
        """Send an interrupt that waited for the kernel to become ready."""
        if self._held and self._is_ready(self._group.leader):
            self._held = False
            self._interrupt()

    def obey(self, arrival: Arrival) -> None:
        """Schedule the kernel to be killed if it does not end in time after a request to stop."""
        if arrival.signum in (signal.SIGTERM, signal.SIGHUP):
            self._group.kill_by(arrival.at + STOP_SECONDS)
        elif arrival.signum == signal.SIGCONT:
            self._group.send(signal.SIGCONT)

    @property
    def was_stopped(self) -> bool:
        """True if Jupyter asked the kernel to end. An interrupt does not."""
        return self._asked

    def _forward(self, signum: int) -> None:
        if signum != signal.SIGINT:
            self._asked = self._asked or signum in (signal.SIGTERM, signal.SIGHUP)
            super()._forward(signum)
        elif self._is_ready(self._group.leader):
            self._interrupt()
        else:
            self._held = True

    def _interrupt(self) -> None:
        try:
            os.kill(self._group.leader, signal.SIGINT)
        except ProcessLookupError:
            pass  # it has just died; the supervisor will say so
