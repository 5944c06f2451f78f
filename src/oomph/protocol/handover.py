"""Defines what `oomph run` and `oomph rehearse` pass to the script process in environment variables.

Used on both sides. The script process may run a different Python from oomph's own, so only the standard library is used
here.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Any, NamedTuple

from oomph.files.opening import open_own
from oomph.protocol.profile_window import ProfileWindow

REHEARSAL = "OOMPH_REHEARSAL"
_MARK = "rehearsed"
VARIABLE = "OOMPH_HANDOVER"


class Guarding(NamedTuple):
    """The `oomph run` options that apply to the script process."""

    guard: bool = True
    """False for `--no-guard`: supervise and restart, but leave Keras alone."""
    checkpoint_steps: int | None = None
    """The number of steps between checkpoints, or None to use `checkpoint_seconds`."""
    checkpoint_seconds: float | None = None
    """The time between checkpoints, in seconds. If this and `checkpoint_steps` are None, the share of time that
    checkpoints take is limited instead."""
    micro_batch: int | None = None
    """The initial micro-batch size, or None for the full batch."""
    inexact: str | None = None
    """"allow" or "refuse" for micro-batches that change the result, or None to allow the common, known kinds."""
    smaller_batch: bool = False
    """True to train a batch that neither fits nor may be divided as several smaller batches, each with an update."""
    verify: int | None = None
    """The number of steps at the start of every fit to compare with plain Keras, or None for none."""
    ignore_before: float | None = None
    """The Unix time before which checkpoints are ignored, or None to use all. They are kept until the run has
    finished."""
    trust_finished_fits: bool = False
    """True to return the end state of a finished fit even if not all of its effects could be kept."""
    recheck: int | None = None
    """The interval, in steps, at which to compute gradients twice and compare them, or None for never."""
    skip_corrupt: bool = False
    """True to leave out elements for which a tf.data pipeline fails."""
    resumes_edited: bool = True
    """False to resume only fits whose code has not changed, since the run may be that of another notebook."""
    profile: ProfileWindow | None = None
    """The steps to record with TensorFlow's profiler, or None for none."""

    @classmethod
    def of_document(cls, document: dict[str, Any]) -> Guarding:
        """Build the options from the handover's JSON. Raises TypeError or ValueError if they are damaged."""
        profile = document.get("profile")
        return cls(**{**document, "profile": None if profile is None else ProfileWindow(*map(int, profile))})


class Injection(NamedTuple):
    """One fault to inject, when to inject it, and when to end the rehearsal."""

    fault: str
    """The name of the fault, such as "kill", or an empty string for the undisturbed run."""
    step: int
    """The number of committed steps after which to inject the fault."""
    stop: int | None = None
    """The number of steps after which the rehearsal ends, or None if it ends when the script does."""
    earlier: tuple[str, ...] = ()
    """The directories of earlier runs, whose script created the files that are now in the way."""
    entropy: str = ""
    """The number that seeds unseeded generators in the undisturbed run, which makes results comparable."""

    def to_environment(self) -> dict[str, str]:
        """Return the environment variable that carries the injection."""
        return {REHEARSAL: json.dumps(self._asdict())}

    @classmethod
    def read(cls, environ: Mapping[str, str] | None = None) -> Injection | None:
        """Read the injection for this process, or return None outside a rehearsal."""
        text = (os.environ if environ is None else environ).get(REHEARSAL)
        try:
            if not text:
                return None
            document = json.loads(text)
            return cls(**{**document, "earlier": tuple(document.get("earlier", ()))})
        except (ValueError, TypeError, AttributeError):
            return None


def has_fired(run_dir: Path) -> bool:
    """True if the fault was injected in this or an earlier attempt, since it is injected only once."""
    return os.path.lexists(run_dir / _MARK)


def mark_fired(run_dir: Path) -> None:
    """Record that the fault was injected, so that it is not injected again."""
    os.close(open_own(run_dir, _MARK, os.O_WRONLY | os.O_CREAT))


class Handover(NamedTuple):
    """The information about one attempt that the script process needs."""

    package: str
    """The folder of the oomph package. The script's Python loads oomph from there, not from sys.path."""
    run_dir: str | None
    """The run directory, or None if the default one could not be written."""
    run_dir_is: tuple[int, int] | None = None
    """The device and inode of the run directory. A different folder with the same name is not used."""
    attempt: int = 1
    """The number of the attempt: 1 for the script's first process. `--resume` continues the count."""
    rank: int = 0
    """The number of the worker, counted from 0, or 0 for the only process."""
    workers: int = 1
    """The number of workers that train together."""
    start: str = ""
    """Identifies the start of workers on several machines; an empty string if all are on this one."""
    guarding: Guarding = Guarding()
    lock_fd: int | None = None
    """The inherited descriptor that keeps the run directory locked as long as the script is alive."""
    beat_fd: int | None = None
    """The descriptor of the heartbeat pipe. `beat_inode` shows whether it still refers to that pipe."""
    beat_inode: int | None = None
    stacks_fd: int | None = None
    """The descriptor of an in-memory file for Python stacks. `stacks_inode` shows whether it still refers to it."""
    stacks_inode: int | None = None
    stacks_signal: int | None = None
    """The signal that requests the stacks."""
    most_samples: int | None = None
    """The maximum number of samples to process at once, or None for no limit."""
    entropy: str = ""
    """The number that replaces the system's entropy in every attempt of the run (`entropy.py`), if not empty."""
    changes: tuple[tuple[str, str], ...] = ()
    """The (name, value) of each change from a plain start: "no-xla", "prefetch", "precision" or "skip-batch"."""

    def write(self, environ: MutableMapping[str, str]) -> None:
        """Write the handover into an environment."""
        environ[VARIABLE] = json.dumps({**self._asdict(), "guarding": self.guarding._asdict()})

    @classmethod
    def read(cls, environ: MutableMapping[str, str] | None = None) -> Handover | None:
        """Read this process's handover, or return None if `oomph run` did not start it."""
        text = (os.environ if environ is None else environ).get(VARIABLE)
        if not text:
            return None
        try:
            document = json.loads(text)
            document["changes"] = tuple((str(name), str(value)) for name, value in document.get("changes", ()))
            known = document.get("run_dir_is")
            document["run_dir_is"] = None if known is None else (int(known[0]), int(known[1]))
            document["guarding"] = Guarding.of_document(document.get("guarding", {}))
            return cls(**document)
        except (ValueError, TypeError, AttributeError, IndexError, KeyError):
            return None

    def changed(self, name: str) -> list[str]:
        """Return the values of the changes with this name, oldest first."""
        return [value for known, value in self.changes if known == name]

    @property
    def path(self) -> Path | None:
        """The run directory as a path."""
        return None if self.run_dir is None else Path(self.run_dir)
