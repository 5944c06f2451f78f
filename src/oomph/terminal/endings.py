"""Represents how a process ended, as a value and in the words with which oomph reports it. Pure."""

from __future__ import annotations

import signal
from typing import NamedTuple

SCRIPT_ERROR = "an error in the script itself"
"""The words with which a run's last lines name an error that no fault caused."""
_FIRST_SIGNAL_CODE = 128
"""The number that a shell adds to n in the exit code that reports a child's death by signal n."""

# Linux's numbers (signal(7), x86 and ARM), whatever system reads the log. On macOS, 7 is a different signal.
_SIGNALS = {
    1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 5: "SIGTRAP", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE",
    9: "SIGKILL", 11: "SIGSEGV", 13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM", 24: "SIGXCPU", 25: "SIGXFSZ",
    31: "SIGSYS",
}  # fmt: skip


class ProcessEnd(NamedTuple):
    """The ending of a process."""

    returncode: int
    """The return code, as in `subprocess`: −n for death by signal n."""

    @property
    def exit_code(self) -> int:
        """The exit code that a shell shows: 128 + n for death by signal n."""
        return self.returncode if self.returncode >= 0 else _FIRST_SIGNAL_CODE - self.returncode

    @property
    def number(self) -> str:
        """The ending as a number: "exit code 3", "signal 9"."""
        return f"exit code {self.returncode}" if self.returncode >= 0 else f"signal {-self.returncode}"

    @property
    def name(self) -> str:
        """The ending as a name: "exit code 3", "SIGKILL", or "signal 70" if this system has no name for it."""
        try:
            return self.number if self.returncode >= 0 else signal.Signals(-self.returncode).name
        except ValueError:
            return self.number

    @property
    def problem(self) -> str:
        """The ending as a problem: "ended with exit code 3", "ended by SIGKILL", or an empty string after success."""
        return "" if self.returncode == 0 else f"ended {'with' if self.returncode > 0 else 'by'} {self.name}"

    @property
    def predicate(self) -> str:
        """The words to put after the process's name: "ended with exit code 0", "was killed by SIGKILL"."""
        return f"ended with {self.name}" if self.returncode >= 0 else f"was killed by {self.name}"

    @property
    def in_full(self) -> str:
        """The ending as worded in fault pages, the same on every system: "ended by signal 9 (SIGKILL)"."""
        if self.returncode < 0:
            return f"ended by signal {_named(-self.returncode)}"
        number = self.returncode - _FIRST_SIGNAL_CODE
        shell = f", a shell's code for signal {_named(number)}" if number in _SIGNALS else ""
        return f"ended with exit code {self.returncode}{shell}"


def _named(number: int) -> str:
    return f"{number} ({_SIGNALS[number]})" if number in _SIGNALS else str(number)
