"""Preemption, in the script's process: SIGTERM or SIGUSR1 asks to save at the next step border, and to end.

SIGTERM is caught while a fit runs, SIGUSR1 from the first fit on: schedulers send it as a warning, with time to spare.
Where the script has a handler of its own, that stays, and oomph leaves the matter to it.
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
"""Schedulers signal a job and its steps: within this time two signals are one request."""
_POWERS = {signal.SIGTERM: Power.CHECKPOINT_ON_TERM, signal.SIGUSR1: Power.CHECKPOINT_ON_USR1}


class Preemption:
    """Whether this process has been asked to save and end.

    Args:
        pulse: tells the supervisor which signals are caught here.
    """

    def __init__(self, pulse: Pulse) -> None:
        self._pulse, self._pid = pulse, os.getpid()
        self.asked = ""
        """The name of the signal that asked; empty while none has."""
        self._asked_at = 0.0

    def arm(self) -> None:
        """A fit begins: from here on there are borders to end at."""
        for signum in _POWERS:
            self._catch(signum)

    def disarm(self) -> None:
        """The fit is over. SIGTERM ends the process again; SIGUSR1 is kept for the next fit."""
        if signal.getsignal(signal.SIGTERM) == self._receive and os.getpid() == self._pid:
            try:
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
            except ValueError:
                return  # not in the main thread: it was not armed either
            self._pulse.tell_power(Power.CHECKPOINT_ON_TERM, False)
            if self.asked == "SIGTERM":
                os.kill(self._pid, signal.SIGTERM)  # no border came any more

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
        if again or os.getpid() != self._pid:  # a fork has inherited the handler, and has nothing to save
            signal.signal(signum, signal.SIG_DFL)
            os.kill(os.getpid(), signum)
        elif not self.asked:
            self.asked, self._asked_at = signal.Signals(signum).name, time.monotonic()
