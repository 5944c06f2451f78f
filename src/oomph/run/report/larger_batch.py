"""Suggests a larger batch that should fit, based on the memory that a run's fits used. Pure.

At any moment, a step needs a fixed amount of memory, plus an amount that grows with the batch. The peak is the maximum
over all moments. A batch k times as large therefore needs at most the kept memory plus k times the rest of the measured
peak, or less if part of that rest is scratch memory that does not grow. Only a step that compares the samples in a
batch with one another may need more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from oomph.journal.events import FitFinished
from oomph.journal.journal import Event, facts

_USABLE = 0.9
"""The share of the device's memory to fill. The rest allows for the gaps that an allocator leaves."""
_WORTH_SAYING = 1.1
_MOST = 16
"""The largest factor to suggest. Beyond it, kernels choose different algorithms."""
_LINEAR = ("exact", "approximate")
"""The kinds of guards for steps that treat each sample independently, or depend on a batch only via its statistics."""


@dataclass(frozen=True)
class LargerBatch:
    """The room that a run leaves for larger batches."""

    times: float
    """The factor by which batches may grow."""
    batch: int | None
    """The batch size in this run, or None if it is unknown or differs between fits."""
    samples: int | None
    """A batch size that should fit, or None if `batch` is None. An even larger one may also fit."""
    limit_bytes: int
    """The amount of device memory that TensorFlow's allocator may use."""


def larger_batch(events: Sequence[Event]) -> LargerBatch | None:
    """Return the larger batch that a run leaves room for, or None if it is unknown or not worth reporting."""
    fits = facts(events, FitFinished)
    figures = [_figures(fit) for fit in fits]
    known = [each for each in figures if each is not None]
    if not fits or len(known) < len(fits) or any(fit.guard not in _LINEAR for fit in fits):
        return None
    peak, limit, kept = max(each[0] for each in known), min(each[1] for each in known), min(each[2] for each in known)
    if peak <= kept:
        return None
    times = min(float(_MOST), (_USABLE * limit - kept) / (peak - kept))
    if times < _WORTH_SAYING:
        return None
    batches = {fit.batch_size for fit in fits}
    batch = batches.pop() if len(batches) == 1 else None
    batch = batch if batch is not None and batch > 0 else None
    return LargerBatch(round(times, 2), batch, None if batch is None else int(times * batch), limit)


def _figures(fit: FitFinished) -> tuple[int, int, int] | None:
    """Return the peak, the limit and the kept memory, in bytes, or None unless all three are known."""
    peak, limit, kept = fit.device_peak_bytes, fit.device_limit_bytes, fit.kept_bytes
    if peak is None or limit is None or kept is None or min(peak, limit, kept) < 0:
        return None
    return peak, limit, kept


def larger_batch_in_words(found: LargerBatch) -> str:
    """Describe a cautious bound: "batches of up to 256 should fit (64 in this run)". Larger ones may fit too."""
    if found.samples is None:
        return f"batches up to {found.times:.1f} times as large should fit"
    return f"batches of up to {found.samples:,} should fit ({found.batch:,} in this run)"
