"""Guarding: how a script is to be guarded. The standard library alone: the script's process reads it, too."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Guarding:
    """The options of `oomph run` that concern the script's own process."""

    guard: bool = True
    """False for `--no-guard`: supervise and restart, but leave Keras alone."""
    checkpoint_steps: int | None = None
    """Checkpoint after this many steps; None: after `checkpoint_seconds`."""
    checkpoint_seconds: float | None = None
    """Checkpoint after this many seconds; None (with no steps either): bound the cost to a share of time."""
    micro_batch: int | None = None
    """Start with micro-batches of this many samples; None: the whole batch."""
    inexact: str | None = None
    """"allow" or "refuse" micro-batches that change the result; None: those of known and usual kinds are allowed."""
    smaller_batch: bool = False
    """Train on parts of a batch that does not fit and may not be divided, each with an update of its own."""
    verify: int | None = None
    """Take the first steps of every fit beside plain Keras, this many."""
    ignore_before: float | None = None
    """Use no checkpoint taken before this moment, in seconds since 1970; None: any. They stay until the run has
    finished."""
    trust_finished_fits: bool = False
    """Return the end state of a fit that has finished, also where not all of its effects could be kept."""
    recheck: int | None = None
    """Compute the gradients of one step in so many twice, and compare."""
