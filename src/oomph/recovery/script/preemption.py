"""Preemption: SIGTERM or SIGUSR1 asks the script process to save a checkpoint after the current step and exit.

SIGTERM is caught while a fit runs, SIGUSR1 from the first fit on: schedulers send it as a warning, with time to spare.
If the script has its own handler, oomph leaves that in place and does nothing.
"""

from __future__ import annotations

import os
import signal
import time
from types import FrameType

from oomph.recovery.protocol.phases import Power
from oomph.recovery.script.pulse import Pulse

EXIT_CODE = 75
_ECHO_SECONDS = 0.5
"""Schedulers signal a job and its steps: two signals within this time are one request."""
_POWERS = {signal.SIGTERM: Power.CHECKPOINT_ON_TERM, signal.SIGUSR1: Power.CHECKPOINT_ON_USR1}


class Preemption:
    """Whether this process has been asked to save and exit.

    Args:
        pulse: reports to the supervisor which signals are caught here.
    """

    def __init__(self, pulse: Pulse) -> None:
        self._pulse, self._pid = pulse, os.getpid()
        self.asked = ""
        """The name of the signal received; empty if none was."""
        self._asked_at = 0.0

    def arm(self) -> None:
        """Catch the signals: a fit begins, and the process can save between its steps."""
        for signum in _POWERS:
            self._catch(signum)

    def disarm(self) -> None:
        """The fit is over: SIGTERM ends the process again; SIGUSR1 stays caught for the next fit."""
        if signal.getsignal(signal.SIGTERM) == self._receive and os.getpid() == self._pid:
            try:
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
            except ValueError:
                return  # not in the main thread, so it was not armed either
            self._pulse.tell_power(Power.CHECKPOINT_ON_TERM, False)
            if self.asked == "SIGTERM":
                os.kill(self._pid, signal.SIGTERM)  # the fit ended before another step could save

    def _catch(self, signum: signal.Signals) -> None:
        if signal.getsignal(signum) is not signal.SIG_DFL:
            return
        try:
            signal.signal(signum, self._receive)
        except ValueError:
            return  # not in the main thread
        self._pulse.tell_power(_POWERS[signum])

    def _receive(self, signum: int, frame: FrameType | None) -> None:
        again = self.asked and time.monotonic() - self._asked_at > _ECHO_SECONDS
        if again or os.getpid() != self._pid:  # a fork inherits the handler but has nothing to save
            signal.signal(signum, signal.SIG_DFL)
            os.kill(os.getpid(), signum)
        elif not self.asked:
            self.asked, self._asked_at = signal.Signals(signum).name, time.monotonic()
