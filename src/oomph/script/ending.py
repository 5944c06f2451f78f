"""Defines how a training that must not go on ends: a script exits, and a cell of a notebook raises an exception."""

from __future__ import annotations

from typing import NoReturn, Protocol


class TrainingEnding(Protocol):
    """Ends a training of this process, once its last checkpoint is written."""

    owns_the_group: bool
    """True if the whole process group belongs to the script, so that Ctrl-C must be passed on to it."""

    def restart(self, reason: str, saved: int) -> NoReturn:
        """End a training whose process is no longer usable, but which a new process can resume.

        Args:
            saved: the number of steps in the last checkpoint, or 0 if there is none.
        """

    def refuse(self, what: str, site: str, reason: str, by_itself: bool) -> NoReturn:
        """End a training before its first step, since its checkpoints do not match it.

        Args:
            what: "fit" or "loop".
            by_itself: True if the training differs from the checkpoint even though the script was not edited.
        """

    def postpone(self, what: str, site: str, reason: str) -> NoReturn:
        """End a training before its first step, since its checkpoints are valid but cannot be used now."""

    def obey(self, signal_name: str, steps: int, saved: int) -> NoReturn:
        """End a training as a signal asks, once everything that can be saved has been saved."""
