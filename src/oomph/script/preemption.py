"""Handles requests to end: the script process first saves a checkpoint after the current step.

SIGTERM is caught while a fit runs, SIGUSR1 once the first fit begins: schedulers send it as a warning, with time to
spare. Both end the process. Ctrl-C (SIGINT) is caught while a fit runs; once the checkpoint is taken, it becomes the
KeyboardInterrupt that the script would have got at once. It waits at most `SECONDS_TO_SAVE` for the step, and not at
all if nothing is unsaved or if it is pressed a second time.

If the script has its own handler, oomph leaves that in place and does nothing.
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
"""The longest time, in seconds, that Ctrl-C waits for the end of the step and for the checkpoint."""
_ECHO_SECONDS = 0.5
"""The time, in seconds, within which two signals count as one request, since schedulers signal a job and its steps."""
_SILENT_SECONDS = 1.0
"""The time, in seconds, after which a wait is announced."""
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
    """Catches requests to end; evaluates as true once this process has been asked to save and end.

    Args:
        pulse: reports to the supervisor which signals this process catches.
        is_unsaved: returns True if a checkpoint would contain more than the newest one; called in a signal handler.
        say: prints a line.
    """

    def __init__(self, pulse: Pulse, is_unsaved: Callable[[], bool], say: Callable[[str], None]) -> None:
        self._pulse, self._is_unsaved, self._say, self._pid = pulse, is_unsaved, say, os.getpid()
        self.asked = ""
        """The name of the signal received; empty if none was."""
        self.is_hurried = False
        """True if Ctrl-C did not wait for its checkpoint, so that nothing else should wait."""
        self._asked_at = 0.0

    def arm(self) -> None:
        """Catch the signals when a fit begins, since the process can save between steps."""
        self.is_hurried = False
        for signum in _POWERS:
            self._catch(signum)

    def disarm(self) -> None:
        """Let SIGTERM end the process again after a fit; SIGUSR1 stays caught for the next fit.

        Raises KeyboardInterrupt if Ctrl-C has waited in vain for another step.
        """
        if self._release(signal.SIGTERM) and self.asked == signal.SIGTERM.name:
            os.kill(self._pid, signal.SIGTERM)  # the fit ended before another step could save
        if self._release(signal.SIGINT) and self.asked == CTRL_C:
            self.interrupt()

    def interrupt(self) -> NoReturn:
        """Raise the KeyboardInterrupt for Ctrl-C, and pass the signal on to the process group.

        A terminal interrupts the whole group at once. Here the other processes wait as well: the script needs its
        workers until it has saved, and a shell that runs it must not go on to its next command.
        """
        self.asked = ""
        self._release(signal.SIGINT)
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
        if os.getpid() != self._pid:  # a fork inherits the handler but has nothing to save
            self._leave_to_python(signum)
        elif signum == signal.SIGINT:
            self._receive_ctrl_c(is_echo)
        elif self.asked == CTRL_C:
            if signum == signal.SIGTERM:  # as which the supervisor passes on the second Ctrl-C
                self._hurry()
        elif not self.asked:
            self._note(signum)
        elif not is_echo:
            self._leave_to_python(signum)

    def _receive_ctrl_c(self, is_echo: bool) -> None:
        if not self.asked and self._is_unsaved():
            self._note(signal.SIGINT)
            try:
                _thread.start_new_thread(self._limit, (self._asked_at,))  # takes no lock: this is a signal handler
            except RuntimeError:  # there may be no more threads
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
        """Report that Ctrl-C waits, and limit the wait; runs in its own thread."""
        time.sleep(_SILENT_SECONDS)
        if self._waits_since(asked_at):
            self._say(f"Ctrl-C: saving after this step, within {SECONDS_TO_SAVE:.0f} s; press it again to end at once")
        time.sleep(SECONDS_TO_SAVE - _SILENT_SECONDS)
        if self._waits_since(asked_at):
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    def _waits_since(self, asked_at: float) -> bool:
        return (self.asked, self._asked_at) == (CTRL_C, asked_at)
