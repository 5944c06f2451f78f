"""Comparison: the steps of a resumed training, held against the witnesses of the same steps. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from oomph.recovery.witness import EPOCH, STEP, Witness

_WITHIN = 10.0
"""Times the noise of one step that the loss may differ by: it adds up over the steps that are repeated."""


@dataclass(frozen=True)
class Difference:
    """The first thing that came out otherwise."""

    what: str
    """In words: "the data come in another order"."""
    epoch: int
    step: int
    """Counted from 0; after the last step of its epoch, for a state at its end."""
    kind: int = STEP

    def __str__(self) -> str:
        at = f"epoch {self.epoch + 1}"
        return f"{self.what}, from {at}, step {self.step + 1} on" if self.kind == STEP else f"{self.what} after {at}"


class Comparison:
    """What was repeated since a resume, and whether it came out as before.

    Args:
        before: the witnesses of earlier attempts, the oldest first.
        key: of the fit.
        epoch: where the fit goes on, counted from 0.
        step: likewise.
        noise: measures by how much two computations of the same loss differ, relatively; 0.0 where they do not.
    """

    def __init__(
        self, before: Iterable[Witness], key: int, epoch: int, step: int, noise: Callable[[], float] = lambda: 0.0
    ) -> None:
        mine = [witness for witness in before if witness.key == key]
        self._left = {(w.kind, w.epoch, w.step): w for w in mine if (w.epoch, w.step) >= (epoch, step)}
        self._measure, self._noise = noise, -1.0
        self.steps = self.epochs = 0
        """Those that were repeated and came out as before."""
        self.difference: Difference | None = None

    @property
    def pending(self) -> bool:
        """Whether anything is left that may still be compared."""
        return bool(self._left) and self.difference is None

    @property
    def noise(self) -> float:
        """The noise that was allowed for; 0.0 where every bit was the same."""
        return max(0.0, self._noise)

    def awaits(self, kind: int, epoch: int, step: int) -> bool:
        """Whether there is a witness that this would be held against."""
        return self.pending and (kind, epoch, step) in self._left

    def see(self, now: Witness) -> bool:
        """Compare one more step, or epoch; returns whether there was a witness of it."""
        then = self._left.pop((now.kind, now.epoch, now.step), None)
        if then is None or self.difference is not None:
            return False
        what = self._differs(then, now)
        if what:
            self.difference = Difference(what, now.epoch, now.step, now.kind)
        elif now.kind == STEP and (then.result or then.batch):
            self.steps += 1
        elif now.kind != STEP:
            self.epochs += 1
        return True

    def _differs(self, then: Witness, now: Witness) -> str:
        """What differs, in words; empty when nothing does."""
        if then.batch and now.batch and then.batch != now.batch:
            return "the data come in another order, or are others"
        if not (then.result and now.result) or then.result == now.result:
            return ""
        if now.kind == STEP and self._is_noise(then, now):
            return ""
        if self._noise > 0 and now.kind != STEP:
            return ""  # bits cannot be the same where two runs of one step differ
        if then.rate and now.rate and then.rate != now.rate:
            return f"the learning rate is {now.rate:g}, was {then.rate:g}"
        if then.random and now.random and then.random != now.random:
            return "other random numbers are drawn"
        if now.kind == EPOCH:
            return "the state is another"
        if now.kind == STEP:
            losses = f" (loss {now.loss:.9g}, was {then.loss:.9g})" if now.loss != then.loss else ""
            return f"the same batch gives another result{losses}"
        return "the state at the end is another"

    def _is_noise(self, then: Witness, now: Witness) -> bool:
        """Whether two computations of one step differ as much, in this training on this machine."""
        if not then.loss or abs(now.loss - then.loss) > 0.01 * abs(then.loss):
            return False
        if self._noise < 0:
            self._noise = self._measure()
        allowed = _WITHIN * (self.steps + 1) * self._noise * abs(then.loss)
        return self._noise > 0 and abs(now.loss - then.loss) <= allowed
