"""Handover: what oomph passes to the script process in environment variables, by `oomph run` and by `oomph rehearse`.

Runs in both. The script process may run another Python than oomph's own, so this uses only the standard library.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, MutableMapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from oomph.files.opening import open_own

REHEARSAL = "OOMPH_REHEARSAL"
_MARK = "rehearsed"
VARIABLE = "OOMPH_HANDOVER"


@dataclass(frozen=True)
class Guarding:
    """The options of `oomph run` that apply to the script process."""

    guard: bool = True
    """False for `--no-guard`: supervise and restart, but leave Keras alone."""
    checkpoint_steps: int | None = None
    """The number of steps between checkpoints; None to use `checkpoint_seconds`."""
    checkpoint_seconds: float | None = None
    """The time, in seconds, between checkpoints; None, with no steps either, to bound the cost to a share of time."""
    micro_batch: int | None = None
    """The number of samples of the initial micro-batches; None for the full batch."""
    inexact: str | None = None
    """"allow" or "refuse" micro-batches that change the result; None to allow the known, usual kinds."""
    smaller_batch: bool = False
    """True to train a batch that neither fits nor may be divided as several smaller batches, each with an update."""
    verify: int | None = None
    """The number of first steps of every fit to compare with plain Keras; None to compare none."""
    ignore_before: float | None = None
    """The time, in seconds since 1970, before which checkpoints are not used; None to use any. They stay until the run
    has finished."""
    trust_finished_fits: bool = False
    """True to return the end state of a finished fit even if not all of its effects could be kept."""
    recheck: int | None = None
    """The interval, in steps, at which to compute the gradients twice and compare them; None for never."""
    skip_corrupt: bool = False
    """True to leave out elements at which a tf.data pipeline fails."""


@dataclass(frozen=True)
class Injection:
    """One fault, when to inject it, and how far the rehearsal goes."""

    fault: str
    """The name of the fault, such as "kill"; empty for the undisturbed run."""
    step: int
    """The number of committed steps after which the fault is injected."""
    stop: int | None = None
    """The number of steps after which the rehearsal ends; None if it ends with the script."""
    earlier: tuple[str, ...] = ()
    """The directories of earlier runs, in which the script created the files that are now in its way."""
    entropy: str = ""
    """The number that seeds unseeded generators in the undisturbed run, so that results are comparable."""

    def to_environment(self) -> dict[str, str]:
        """Return the environment variable that carries the injection."""
        return {REHEARSAL: json.dumps(asdict(self))}

    @classmethod
    def read(cls, environ: Mapping[str, str] | None = None) -> Injection | None:
        """Read the injection for this process; None outside a rehearsal."""
        text = (os.environ if environ is None else environ).get(REHEARSAL)
        try:
            if not text:
                return None
            document = json.loads(text)
            return cls(**{**document, "earlier": tuple(document.get("earlier", ()))})
        except (ValueError, TypeError, AttributeError):
            return None


def has_fired(run_dir: Path) -> bool:
    """True if the fault has been injected, in this or an earlier attempt: it is injected once."""
    return os.path.lexists(run_dir / _MARK)


def mark_fired(run_dir: Path) -> None:
    """Prevent the fault from being injected again."""
    os.close(open_own(run_dir, _MARK, os.O_WRONLY | os.O_CREAT))


@dataclass(frozen=True)
class Handover:
    """The data about one attempt that the script process needs."""

    package: str
    """The folder of the oomph package; the script's Python loads it from there, not from sys.path."""
    run_dir: str | None
    """The run directory; None if the default one could not be written."""
    run_dir_is: tuple[int, int] | None = None
    """The device and inode of the run directory. A different folder with the same name is not used."""
    attempt: int = 1
    """The number of the attempt: 1 for the first process of the script; `--resume` continues the count."""
    guarding: Guarding = field(default_factory=Guarding)
    lock_fd: int | None = None
    """The inherited descriptor that holds the lock of the run directory while the script is alive."""
    beat_fd: int | None = None
    """The descriptor of the pipe for heartbeats; `beat_inode` shows whether it is still that pipe."""
    beat_inode: int | None = None
    stacks_fd: int | None = None
    """The descriptor of a file in memory for Python stacks; `stacks_inode` shows whether it is still that file."""
    stacks_inode: int | None = None
    stacks_signal: int | None = None
    """The signal that requests the stacks."""
    most_samples: int | None = None
    """The maximum number of samples to process at once; None for no limit."""
    entropy: str = ""
    """A replacement for the system's entropy in every attempt of the run (`entropy.py`), unless empty."""
    changes: tuple[tuple[str, str], ...] = ()
    """(name, value) of each change from a plain start: "no-xla", "prefetch", "precision", "skip-batch"."""

    def write(self, environ: MutableMapping[str, str]) -> None:
        """Put the handover into an environment."""
        environ[VARIABLE] = json.dumps(asdict(self))

    @classmethod
    def read(cls, environ: MutableMapping[str, str] | None = None) -> Handover | None:
        """Read the handover of this process; None if `oomph run` did not start it."""
        text = (os.environ if environ is None else environ).get(VARIABLE)
        if not text:
            return None
        try:
            document = json.loads(text)
            document["changes"] = tuple((str(name), str(value)) for name, value in document.get("changes", ()))
            known = document.get("run_dir_is")
            document["run_dir_is"] = None if known is None else (int(known[0]), int(known[1]))
            document["guarding"] = Guarding(**document.get("guarding", {}))
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
