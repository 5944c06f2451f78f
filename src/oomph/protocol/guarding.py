"""Guarding: how to guard a script. Set by the supervisor, read by the script process. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Guarding:
    """The options of `oomph run` that apply to the script process."""

    guard: bool = True
    """False for `--no-guard`: supervise and restart, but leave Keras alone."""
    checkpoint_steps: int | None = None
    """Checkpoint after this many steps; None: after `checkpoint_seconds`."""
    checkpoint_seconds: float | None = None
    """Checkpoint after this many seconds; None (with no steps either): bound the cost to a share of time."""
    micro_batch: int | None = None
    """Start with micro-batches of this many samples; None: with the full batch."""
    inexact: str | None = None
    """"allow" or "refuse" micro-batches that change the result; None: allow the known, usual kinds."""
    smaller_batch: bool = False
    """Train a batch that neither fits nor may be divided as smaller batches, each with its own update."""
    verify: int | None = None
    """The number of first steps of every fit to compare with plain Keras; None: none."""
    ignore_before: float | None = None
    """Use no checkpoint taken before this time, in seconds since 1970; None: any. They stay until the run has
    finished."""
    trust_finished_fits: bool = False
    """Return the end state of a finished fit even if not all of its effects could be kept."""
    recheck: int | None = None
    """The interval, in steps, at which to compute the gradients twice and compare them; None: never."""
    skip_corrupt: bool = False
    """Leave out elements at which a tf.data pipeline fails."""
