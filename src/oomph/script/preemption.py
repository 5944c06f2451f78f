"""Handles requests to stop: before the script process exits, it saves a checkpoint after the current step.

SIGTERM is caught while a fit is running, and SIGUSR1 from the first fit on, since schedulers send it as an early
warning. Both make the process exit. Ctrl-C (SIGINT) is caught while a fit is running; once the checkpoint is taken, it
becomes the KeyboardInterrupt that would otherwise have been raised immediately. The interrupt waits for the step for at
most `SECONDS_TO_SAVE`, and not at all if everything is saved or Ctrl-C is pressed a second time.

If the script has its own handler, oomph leaves it in place and does nothing.
"""

from __future__ import annotations

import _thread
import os
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, NoReturn

from oomph.protocol.progress import Power
from oomph.script.pulse import Pulse

EXIT_CODE = 75
CTRL_C = signal.SIGINT.name
SECONDS_TO_SAVE = 10.0
"""The longest time, in seconds, that Ctrl-C waits for the step to finish and the checkpoint to be saved."""
_ECHO_SECONDS = 0.5
"""Two signals within this many seconds count as one request, since schedulers signal both a job and its steps."""
_SILENT_SECONDS = 1.0
"""A message is printed if Ctrl-C has to wait for more than this many seconds."""
_POWERS = {
    signal.SIGTERM: Power.CHECKPOINT_ON_TERM,
    signal.SIGUSR1: Power.CHECKPOINT_ON_USR1,
    signal.SIGINT: Power.CHECKPOINT_ON_INT,
}
_DEFAULTS: dict[int, Any] = {
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGUSR1: signal.SIG_DFL,
    signal.SIGINT: signal.default_int_handler,
}


class Preemption:
    """Catches requests to stop.

    Args:
        pulse: reports to the supervisor which signals this process catches.
        is_unsaved: returns True if a checkpoint would contain more than the latest one; called in a signal handler.
        say: prints a line.
        has_group: True if all of this process's group belongs to the script, and waits for it to save after Ctrl-C.
    """

    def __init__(
        self, pulse: Pulse, is_unsaved: Callable[[], bool], say: Callable[[str], None], has_group: bool = True
    ) -> None:
        self._pulse, self._is_unsaved, self._say, self._pid = pulse, is_unsaved, say, os.getpid()
        self._has_group = has_group
        self.asked = ""
        """The name of the signal that was received, or an empty string."""
        self.is_hurried = False
        """True if Ctrl-C did not wait for its checkpoint, in which case nothing else should wait either."""
        self._asked_at = 0.0

    def arm(self) -> None:
        """Catch the signals when a fit starts, since the process can save between its steps."""
        self.is_hurried = False
        for signum in _POWERS:
            self._catch(signum)

    def disarm(self) -> None:
        """Let SIGTERM terminate the process again after a fit; SIGUSR1 is still caught, for the next fit.

        Raises KeyboardInterrupt if Ctrl-C was waiting for a step that never came.
        """
        if self._release(signal.SIGTERM) and self.asked == signal.SIGTERM.name:
            os.kill(self._pid, signal.SIGTERM)  # the fit finished before another step could save
        if self._release(signal.SIGINT) and self.asked == CTRL_C:
            self.interrupt()

    def end(self) -> None:
        """Leave all signals to Python again."""
        for signum in _POWERS:
            self._release(signum)

    def interrupt(self) -> NoReturn:
        """Raise the KeyboardInterrupt for Ctrl-C, and pass the signal on to the process group.

        A terminal interrupts the whole group at the same time. Here, the other processes have to wait as well: the
        script needs its workers until it has saved, and a shell that runs it must not continue with its next command.
        Without a supervisor, whoever sent the signal has sent it to all that should have it.
        """
        self.asked = ""
        self._release(signal.SIGINT)
        if not self._has_group:
            raise KeyboardInterrupt
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            os.killpg(os.getpgrp(), signal.SIGINT)
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        raise KeyboardInterrupt

    def _catch(self, signum: signal.Signals) -> None:
        if signal.getsignal(signum) is not _DEFAULTS[signum]:
            return
        try:
            signal.signal(signum, self._receive)
        except ValueError:
            return  # not in the main thread
        self._pulse.tell_power(_POWERS[signum])

    def _release(self, signum: signal.Signals) -> bool:
        """Stop catching a signal; return True if oomph's handler was in place."""
        if signal.getsignal(signum) != self._receive or os.getpid() != self._pid:
            return False
        try:
            signal.signal(signum, _DEFAULTS[signum])
        except ValueError:
            return False  # not in the main thread, so it was not armed either
        self._pulse.tell_power(_POWERS[signum], False)
        return True

    def _receive(self, signum: int, frame: FrameType | None) -> None:
        is_echo = time.monotonic() - self._asked_at <= _ECHO_SECONDS
        if os.getpid() != self._pid:  # a fork inherits the handler, but has no state to save
            self._leave_to_python(signum)
        elif signum == signal.SIGINT:
            self._receive_ctrl_c(is_echo)
        elif self.asked == CTRL_C:
            if signum == signal.SIGTERM:  # the supervisor passes on the second Ctrl-C as SIGTERM
                self._hurry()
        elif not self.asked:
            self._note(signum)
        elif not is_echo:
            self._leave_to_python(signum)

    def _receive_ctrl_c(self, is_echo: bool) -> None:
        if not self.asked and self._is_unsaved():
            self._note(signal.SIGINT)
            try:
                _thread.start_new_thread(self._limit, (self._asked_at,))  # signal handlers must not take locks
            except RuntimeError:  # it may be impossible to start another thread
                self._hurry()
        elif not (self.asked == CTRL_C and is_echo):
            self._hurry()

    def _note(self, signum: int) -> None:
        self.asked, self._asked_at = signal.Signals(signum).name, time.monotonic()

    def _hurry(self) -> NoReturn:
        self.is_hurried = True
        self.interrupt()

    def _leave_to_python(self, signum: int) -> None:
        signal.signal(signum, _DEFAULTS[signum])
        os.kill(os.getpid(), signum)

    def _limit(self, asked_at: float) -> None:
        """Report that Ctrl-C is waiting, and limit the wait. Runs in its own thread."""
        time.sleep(_SILENT_SECONDS)
        if self._waits_since(asked_at):
            self._say(f"Ctrl-C: saving after this step, within {SECONDS_TO_SAVE:.0f} s; press again to exit at once")
        time.sleep(SECONDS_TO_SAVE - _SILENT_SECONDS)
        if self._waits_since(asked_at):
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    def _waits_since(self, asked_at: float) -> bool:
        return (self.asked, self._asked_at) == (CTRL_C, asked_at)
