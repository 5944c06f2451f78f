"""The command line's settings for every attempt of a run."""

from __future__ import annotations

from dataclasses import dataclass, field

from oomph.process.process_group import Patience
from oomph.protocol.handover import Guarding
from oomph.run.supervisor.machine_at_start import MachineAtStart


@dataclass(frozen=True)
class Settings:
    """The command line's settings for every attempt of the run."""

    guarding: Guarding = field(default_factory=Guarding)
    allowed: frozenset[str] = frozenset()
    """Changes that alter the mathematics (`ladder.OPT_IN`) and that the user allows."""
    typed: tuple[str, ...] = ()
    """The options of `oomph run` as typed."""
    patience: Patience = field(default_factory=Patience)
    machine_at_start: MachineAtStart = field(default_factory=MachineAtStart)
