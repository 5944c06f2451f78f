"""Comparison: the steps of a resumed training, held against the witnesses of the same steps. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from oomph.recovery.checkpoint.witness import EPOCH, STEP, Witness

_MOST_NOISE = 0.01
"""A loss that differs by more, relatively, is another one, however noisy the training is."""
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
    """

    def __init__(self, before: Iterable[Witness], key: int, epoch: int, step: int) -> None:
        mine = [witness for witness in before if witness.key == key]
        self._left = {(w.kind, w.epoch, w.step): w for w in mine if (w.epoch, w.step) >= (epoch, step)}
        self._noise = -1.0
        self._undecided: deque[tuple[Witness, Witness]] = deque()
        """Pairs of witnesses that wait until it is known how noisy this training is."""
        self.steps = self.epochs = 0
        """Those that were repeated and came out as before."""
        self.difference: Difference | None = None

    @property
    def pending(self) -> bool:
        """Whether anything is left that may still be compared."""
        return bool(self._left or self._undecided) and self.difference is None

    @property
    def is_in_doubt(self) -> bool:
        """Whether a small difference was seen that may be noise: `settle` decides."""
        return bool(self._undecided)

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
        self._undecided.append((then, now))
        if len(self._undecided) == 1:
            self._decide()
        return True

    def settle(self, noise: float) -> None:
        """Decide what was in doubt.

        Args:
            noise: by how much two computations of one step differ, relatively; 0.0 where they do not.
        """
        self._noise = noise
        self._decide()

    def _decide(self) -> None:
        """Compare what waits, up to the first pair that is in doubt."""
        while self._undecided and self.difference is None:
            then, now = self._undecided[0]
            if self._noise < 0 and _may_be_noise(then, now):
                return
            self._undecided.popleft()
            self._compare(then, now)
        if self.difference is not None:
            self._undecided.clear()

    def _compare(self, then: Witness, now: Witness) -> None:
        what = self._differs(then, now)
        if what:
            self.difference = Difference(what, now.epoch, now.step, now.kind)
        elif not (then.result and now.result):
            return  # the batch alone says nothing of the state
        elif now.kind == STEP:
            self.steps += 1
        elif then.result == now.result:
            self.epochs += 1

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
        allowed = _WITHIN * (self.steps + 1) * self._noise * abs(then.loss)
        return self._noise > 0 and _may_be_noise(then, now) and abs(now.loss - then.loss) <= allowed


def _may_be_noise(then: Witness, now: Witness) -> bool:
    """Whether the same batch has given almost the same loss, or the same batches another state."""
    if not (then.result and now.result) or then.result == now.result:
        return False
    if now.kind != STEP:
        return True
    pairs = ((then.batch, now.batch), (then.rate, now.rate), (then.random, now.random))
    same = all(before == after for before, after in pairs if before and after)
    return same and bool(then.loss) and abs(now.loss - then.loss) <= _MOST_NOISE * abs(then.loss)
