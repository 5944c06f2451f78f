"""Guards Keras in a notebook, and reports each finished fit in one line."""

from __future__ import annotations

from typing import Any

from oomph.hooks import intercept
from oomph.journal.journal import Event, read_journal
from oomph.notebook.closing_line import closing_line
from oomph.resume.fit.fit import Fit
from oomph.resume.training.fits import Fits
from oomph.script.session import Session


def install(trainer: Any, session: Session, late: bool) -> Fits | None:
    """Guard Keras' TensorFlow trainer, and return the fits of this process, or None if Keras is not supported.

    Args:
        late: True if Keras was imported before oomph was enabled.
    """
    heard: list[Event] = []
    session.journal.heard = heard.append

    def over(fit: Fit) -> None:
        line = closing_line([*_before(session), *heard], fit.identity.key, fit.identity.ordinal)
        heard.clear()
        if line:
            session.say(line)

    return intercept.install(trainer, session, late, over)


def _before(session: Session) -> list[Event]:
    """Return the events of earlier attempts, and those of this attempt that other processes wrote."""
    run_dir, attempt = session.run_dir, session.handover.attempt
    if run_dir is None:
        return []
    events = read_journal(run_dir)
    return [event for event in events if event.attempt < attempt or event.role != session.role]
