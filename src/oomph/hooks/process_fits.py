"""The fits of this process, which share one object even if the script trains with both Keras 3 and Keras 2."""

from __future__ import annotations

from oomph.hooks import fault_injection, unfinished_caches, unguarded
from oomph.keras_bridge import stateful_random_ops
from oomph.keras_bridge.names import support
from oomph.keras_bridge.names.row import Feature
from oomph.process import undoing
from oomph.protocol.ownership import below_owner
from oomph.resume.loop import loops
from oomph.resume.training.fits import Fits
from oomph.script.session import Session

_fits: Fits | None = None


def fits_of(session: Session) -> Fits:
    """Return the fits of this process. The first call starts what does not depend on the Keras that trains."""
    global _fits
    if _fits is None or _fits.session is not session:
        _fits = Fits(session)
        _fits.meter.listen()
        undoing.remember(_forget)
        undoing.remember(_fits.close)
        unfinished_caches.watch(session)
        unguarded.watch_runtime(session)
        fault_injection.install(_fits)
        loops.install(_fits)
        if not below_owner() and not support.lacks(Feature.SEEDS):
            stateful_random_ops.install_eager(session.handover.entropy)
    return _fits


def _forget() -> None:
    global _fits
    _fits = None
