"""Defines oomph's own exceptions, for all processes. They never wrap the user's exceptions.

OomphError
 ├── UsageError            the command line asks for something impossible            exit 2
 ├── ExamineError          the input to examine cannot be read                      exit 3
 ├── OutputError           there is nowhere to print to                            exit 2
 ├── RunDirectoryError     the run directory is not writable, in use, or not a run   exit 2
 ├── GatheringError        workers that a scheduler should have started are missing  exit 75
 ├── StoreError            the store of a run cannot be reached, read or written     exit 2
 │    └── SupersededError  another oomph run writes the store now
 ├── CheckpointError       a checkpoint cannot be written or fails verification
 ├── UnsupportedError      the installed Keras or TensorFlow lacks what the guard needs
 ├── IsolatedError         a function run in its own process did not return
 └── TrainingStoppedError  a training in a notebook cannot go on as it is
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class OomphError(Exception):
    """The base class of all exceptions that oomph raises on purpose. `exit_code` is the command's exit code."""

    exit_code = 1


class UsageError(OomphError):
    """The command line asks for something impossible."""

    exit_code = 2


class ExamineError(OomphError):
    """The input to examine, such as a log or a run, cannot be read."""

    exit_code = 3


class OutputError(OomphError):
    """Standard output is closed or cannot be written to."""

    exit_code = 2


class RunDirectoryError(OomphError):
    """The run directory is not writable, is in use by another oomph, or is not an oomph run."""

    exit_code = 2


class GatheringError(OomphError):
    """Workers that a scheduler should have started with this one have not appeared. Another start may help."""

    exit_code = 75


class StoreError(OomphError):
    """The store of a run cannot be reached, read or written."""

    exit_code = 2


class SupersededError(StoreError):
    """Another oomph run writes the store now."""


class CheckpointError(OomphError):
    """A checkpoint cannot be written, or a checkpoint on disk fails verification."""


class UnsupportedError(OomphError):
    """The installed Keras or TensorFlow lacks something that the guard relies on."""


class TrainingStoppedError(OomphError):
    """A training in a notebook cannot go on as it is. `reason` says why, and `remedy` what to do next."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(f"{reason}. {remedy}")
        self.reason, self.remedy = reason, remedy

    def _render_traceback_(self) -> list[str]:
        """Return the lines that IPython shows instead of a traceback, in which all frames would be oomph's."""
        return [f"{type(self).__name__}: {self}"]


class IsolatedError(OomphError):
    """A function run in its own process did not return. `outcome` describes what happened."""

    def __init__(self, reason: str, outcome: Any = None) -> None:
        super().__init__(reason)
        self.outcome = outcome
