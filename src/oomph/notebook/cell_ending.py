"""Ends a training in a notebook by raising in its cell: exiting would lose the variables that the kernel holds."""

from __future__ import annotations

import os
import signal
from typing import NoReturn

from oomph.errors import TrainingStoppedError
from oomph.script import shell
from oomph.terminal.amounts import counted


class CellEnding:
    """Ends a training but not the process, unless a signal asks the process to end."""

    owns_the_group = False

    def restart(self, reason: str, saved: int) -> NoReturn:
        """Raise an exception: only a new process can continue the training, and this one saves nothing more."""
        where = f"training continues after step {saved}" if saved else "training starts from the beginning"
        raise TrainingStoppedError(f"{reason}: training cannot continue in this process", f"{_anew()}: {where}")

    def refuse(self, what: str, site: str, reason: str, by_itself: bool) -> NoReturn:
        """Raise an exception before the first step; the checkpoints are kept, and the cell can be run again."""
        seed = "; if nothing sets a seed, call keras.utils.set_random_seed(1) in the first cell" if by_itself else ""
        raise TrainingStoppedError(
            f"{what} at {site} cannot be resumed: {reason}",
            f"Undo the change to resume from the checkpoint, which is kept, or {_start_over()}{seed}",
        )

    def postpone(self, what: str, site: str, reason: str) -> NoReturn:
        """Raise an exception before the first step; the cell can be run again once the cause is gone."""
        raise TrainingStoppedError(
            f"{what} at {site} cannot be resumed now: {reason}",
            f"The checkpoint is kept: {_run_again()} to resume from it, or {_start_over()}",
        )

    def obey(self, signal_name: str, steps: int, saved: int) -> NoReturn:
        """End the process by the signal, as without oomph; its sender need not learn how much is saved."""
        signum = signal.Signals[signal_name]
        signal.signal(signum, signal.SIG_DFL)
        os.kill(os.getpid(), signum)
        raise TrainingStoppedError(f"{signal_name}: {saved} of {counted(steps, 'step')} are saved", _anew())


def _anew() -> str:
    if shell.is_kernel():
        return "Restart the kernel and run the cells again"
    return "Start the program again"


def _run_again() -> str:
    return "start the program again" if shell.running() is None else "run the cell again"


def _start_over() -> str:
    if shell.running() is None:
        return "delete its folder in .oomph/notebooks to start over"
    return "start over with %oomph fresh"
