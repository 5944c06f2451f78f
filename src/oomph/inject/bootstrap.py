"""Joins the run at the start of the script process, then waits for Keras.

The owner joins at once. Its children join only when they import Keras: most never do, and by then TensorFlow has
already imported the modules needed.
"""

from __future__ import annotations

import os

from oomph.inject import hook
from oomph.protocol.ownership import below_owner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from oomph.script.session import Session


def start() -> None:
    """Join the run described by OOMPH_HANDOVER, and guard Keras when the script imports it.

    With OOMPH_REACH, wait for the training call to examine instead, even within a run.
    """
    if os.environ.get("OOMPH_REACH"):
        from oomph.inject import reaching

        reaching.start()
        return
    if below_owner():
        hook.after_import(_at_import(_join_to_guard))
        return
    session = _join()
    if session is None:
        return
    if session.handover.guarding.guard:
        from oomph.protocol.entropy import seeding
        from oomph.script import environment_read

        awaited = {**_at_import(lambda: session), **seeding(session.handover.entropy), **hook.leaving_signals()}
        environment_read.watch()
        hook.after_import(awaited | hook.skipping() if session.handover.guarding.skip_corrupt else awaited)
    from oomph.script.second_start import begin

    begin(session)


def _at_import(join: hook.Join) -> dict[str, hook.Act]:
    from oomph.script.unguarded_training import watching

    unguarded = watching(join)
    return {**hook.guarding(join), **unguarded, **hook.guarding_keras_2(join, unguarded)}


def _join_to_guard() -> Session | None:
    """Return this process's session, or None if there is nothing to guard."""
    session = _join()
    return session if session is not None and session.handover.guarding.guard else None


def _join() -> Session | None:
    """Return this process's session, or None outside a run."""
    from oomph.protocol.handover import Handover
    from oomph.script.session import current, join

    handover = Handover.read()
    return None if handover is None else current() or join(handover)
