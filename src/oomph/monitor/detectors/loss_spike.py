"""A loss that jumps for a moment, or rises for good above all that it was.

It looks at the mean loss between two readings. Median and median deviation tell what is usual: the noise of batches,
however heavy its tails, and whatever happens again and again. A learning rate that is raised again lifts the loss too,
but the loss then stays up and is no higher than at the beginning. So a jump counts only if it is over within five
readings, or above all before. Thresholds, oomph's own: 12 deviations, five times the median, and three times as far
from it as the highest of the last 600 readings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median
from typing import NamedTuple

from oomph.monitor.finding import Finding
from oomph.monitor.window import Window

FAULTS = ("nan-loss",)
EVERY = 20.0
_RECENT = 30
"""So many readings are looked at for a jump: more than come between two looks."""
_SECONDS = 1800.0
_USUAL, _LEAST_USUAL = 600, 180
"""So many readings before them show what is usual."""
_WIDTH = 5
"""A jump of more readings is not over at once."""
_CALM = 3
"""So many usual readings show that it is over; and so many high ones that it is not."""
_FAR, _NEAR = 12.0, 6.0
"""In deviations: from where a reading is a jump, and up to where it is usual."""
_BEYOND = 3.0
"""A jump is so many times as far from the median as the farthest usual reading."""
_TIMES = 5.0
"""A jump is so many times the median: a hard batch has two or three times the usual loss."""
_LEAST_DEVIATION = 0.01
"""Of the median: the deviation counts as at least so much."""


class _Usual(NamedTuple):
    """What the loss was before: its median, its deviation, and its highest."""

    middle: float
    deviation: float
    highest: float

    @property
    def jump(self) -> float:
        """From here on a reading is a jump."""
        beyond = self.middle + _BEYOND * (self.highest - self.middle)
        return max(self.middle + _FAR * self.deviation, beyond, _TIMES * self.middle)

    @property
    def calm(self) -> float:
        """Up to here a reading is usual."""
        return max(self.middle + _NEAR * self.deviation, self.highest)


def find(window: Window) -> Iterator[Finding]:
    """Whether the loss has jumped lately."""
    losses = _readings(window)
    before, recent = losses[-_USUAL - _RECENT : -_RECENT], losses[-_RECENT:]
    if len(before) < _LEAST_USUAL or max(recent) <= max(before):
        return
    usual = _usual(before)
    message = _jump(usual, recent) or _rise(usual, recent)
    if message:
        yield Finding("nan-loss", "loss spike", message, "notice", remedy=_REMEDY)


_REMEDY = "Look at the batches of these steps; gradient clipping (clipnorm=1.0 of the optimizer) limits what one can do"


def _jump(usual: _Usual, recent: Sequence[float]) -> str:
    """Whether the loss has jumped, and is back after a few readings."""
    begin = next((n for n, loss in enumerate(recent) if loss >= usual.jump), len(recent))
    width = next((n for n, loss in enumerate(recent[begin:]) if loss <= usual.calm), len(recent))
    back = recent[begin + width : begin + width + _CALM]
    if width > _WIDTH or len(back) < _CALM or max(back) > usual.calm:
        return ""
    return f"the loss jumped from {usual.middle:.4g} to {max(recent[begin : begin + width]):.4g} and is back"


def _rise(usual: _Usual, recent: Sequence[float]) -> str:
    """Whether the loss has risen above all that it was, and stays there."""
    if min(recent[-_WIDTH - 1 :]) < usual.jump:
        return ""
    return f"the loss has risen from {usual.middle:.4g} to {recent[-1]:.4g}, above all that it was"


def _usual(losses: Sequence[float]) -> _Usual:
    middle = median(losses)
    deviation = 1.4826 * median(abs(loss - middle) for loss in losses)
    return _Usual(middle, max(deviation, _LEAST_DEVIATION * abs(middle)), max(losses))


def _readings(window: Window) -> list[float]:
    """The losses of the last half hour, each once, without those that are not finite."""
    losses, step = [], -1.0
    for sample in window.last(_SECONDS):
        loss, now = sample.training.get("recent_loss"), sample.training.get("steps_total", 0.0)
        if loss is not None and abs(loss) != float("inf") and now != step:
            losses.append(loss)
            step = now
    return losses
