"""Forwarding: which signal the script gets for each that the supervisor receives, and how long it may take to obey."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping

from oomph.process.process_group import Patience, ProcessGroup
from oomph.protocol.progress import Power
from oomph.run.hang.watch import Watch
from oomph.run.supervisor import stop_requests
from oomph.run.supervisor.stop_requests import FORWARDED, Arrival, Signals

_PREEMPTIONS: Mapping[int, Power] = {signal.SIGTERM: Power.CHECKPOINT_ON_TERM, signal.SIGUSR1: Power.CHECKPOINT_ON_USR1}
"""The signals with which schedulers announce a preemption (Slurm, Kubernetes)."""


class Forwarding:
    """Passes the supervisor's signals on to one attempt."""

    def __init__(
        self, signals: Signals, group: ProcessGroup, patience: Patience, watch: Watch | None, since: float
    ) -> None:
        """Signals before `since` (time.monotonic) were for an earlier attempt."""
        self._signals, self._group, self._patience, self._watch = signals, group, patience, watch
        self._since = since
        signals.forward = self._forward
        for arrival in list(signals.queue):
            self._forward(arrival.signum)  # arrived while the script was starting

    def close(self) -> None:
        """Stop forwarding."""
        self._signals.forward = None

    def obey(self, arrival: Arrival) -> None:
        """End the script by force if it does not end by itself in time."""
        if arrival.signum == signal.SIGTERM:
            more = self._announcements() > 1
            self._group.kill_by(arrival.at if more else arrival.at + self._patience.terminate_seconds)
        elif arrival.signum == signal.SIGINT:
            if self._presses_in_a_row() > 1:
                self._group.kill_by(arrival.at + self._patience.interrupt_seconds)
        elif arrival.signum == signal.SIGCONT:
            self._group.send(signal.SIGCONT)

    @property
    def asked_by(self) -> str:
        """The signal by which a scheduler announced the end; empty when none did."""
        found = self._asked_by()
        return signal.Signals(found[0].signum).name if found else ""

    @property
    def was_stopped(self) -> bool:
        """True if the user or the scheduler requested the end."""
        latest = time.monotonic() - self._patience.terminate_seconds
        return stop_requests.asked_to_end(self._signals.history, latest)

    def _forward(self, signum: int) -> None:
        """Forward a signal, in the signal handler. The second Ctrl-C in a row sends SIGTERM, the third SIGKILL."""
        presses = self._presses_in_a_row() if signum == signal.SIGINT else 0
        if presses == 1 and self._can(Power.CHECKPOINT_ON_INT):
            self._send_to_owner(signum)  # which passes it on once it has saved: that needs its workers
        elif presses:
            self._group.send({1: signal.SIGINT, 2: signal.SIGTERM}.get(presses, signal.SIGKILL))
        elif signum in _PREEMPTIONS and self._can(_PREEMPTIONS[signum]):
            self._preempt(signum)
        elif signum in FORWARDED or signum == signal.SIGTSTP:
            self._group.send(signum)

    def _preempt(self, signum: int) -> None:
        """Let the script save and end by itself, which needs its workers; a second request kills it at once."""
        if self._announcements() > 1:
            self._group.send(signal.SIGKILL)
        else:
            self._send_to_owner(signum)

    def _send_to_owner(self, signum: int) -> None:
        owner = self._watch.owner if self._watch is not None and self._watch.owner_lives else None
        if owner is None:  # it has ended, and its parent still runs
            self._group.send(signum)
            return
        try:
            os.kill(owner, signum)
        except ProcessLookupError:
            self._group.send(signum)  # it has just ended, and its parent may still run

    def _presses_in_a_row(self) -> int:
        return stop_requests.presses_in_a_row(self._signals.history, self._patience.double_seconds)

    def _announcements(self) -> int:
        return stop_requests.without_echoes(self._asked_by(), self._patience.echo_seconds)

    def _asked_by(self) -> list[Arrival]:
        usr1 = self._can(Power.CHECKPOINT_ON_USR1)
        return stop_requests.announcements(self._signals.history, self._since, usr1)

    def _can(self, power: Power) -> bool:
        return self._watch is not None and self._watch.can(power)
