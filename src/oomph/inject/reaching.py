"""Waits, from the start of each of the script's Python processes, for the training call that the parent wants examined.

Unlike the guard, it fails closed: if a training call cannot be examined, the script is stopped before it trains.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from types import ModuleType

from oomph.inject import hook
from oomph.reach.channel import Channel, ReachHandover, mark_joined
from oomph.script.unguarded_training import at_first_step

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


def start() -> None:
    """Report that this process runs, and wait for a training call. Raises RuntimeError if the handover is damaged."""
    handover = ReachHandover.read()
    if handover is None:
        raise RuntimeError("the handover is damaged")
    channel = Channel(handover)
    channel.tell(joined=os.getpid(), python=sys.executable, marked=mark_joined())
    others = at_first_step(lambda kind: _refuse(kind, channel))
    installed: list[Any] = []
    awaited = {
        hook.TRAINER: lambda trainer: installed.append(_install(trainer, channel)),
        "keras": lambda keras: _listen(installed),  # is fully imported later than its trainer
    }
    hook.after_import({**others, **awaited})


def _listen(installed: Sequence[Any]) -> None:
    """Record the loss calls of custom loops; without them, less is known about the loops."""
    for arrivals in installed:
        try:
            arrivals.listen()
        except Exception as error:
            sys.stderr.write(f"oomph: {type(error).__name__}: {error}; the losses of custom loops remain unknown\n")


def _install(trainer: ModuleType, channel: Channel) -> Any:
    try:
        return import_module("oomph.reach.live.interception").install(trainer, channel)
    except Exception as error:
        channel.end(unsupported=f"this version of Keras cannot be examined: {type(error).__name__}: {error}")


def _refuse(kind: str, channel: Channel) -> None:
    from oomph.protocol.replacements import UNGUARDED_KINDS
    from oomph.script.script_line import calling

    line = calling()
    site = "the script" if line is None else line.site
    known = UNGUARDED_KINDS[kind]
    channel.end(unsupported=f"{site} trains with {known.what}, which oomph cannot examine: {known.instead}")
