"""LoopProof: a loop's witnesses, which cover each step's batch and, when affordable, the resulting state.

A loop's body doesn't return anything. Its witnesses therefore cover the variables in the loop's state after a step:
always for the first step after a checkpoint, and for later steps as long as the cost is negligible.
"""

from __future__ import annotations

from typing import Any, Protocol

from oomph.checkpoint.witness import STEP, Witness, WitnessBoard
from oomph.keras_bridge import fingerprints
from oomph.resume.loop.data import Digests
from oomph.resume.loop.state import LoopVariables
from oomph.resume.training.proof import Proof, Witnessed, loss_of, random_state

_SHARE = 0.004
"""The largest share of training time to spend on batch fingerprints."""
_CHEAP_SECONDS = 0.002
"""The longest time, in seconds, that a state fingerprint may take if one is computed after each of the first steps."""


class WitnessedLoop(Witnessed, Protocol):
    """A loop that leaves witnesses."""

    variables: LoopVariables
    last_guarded: Any
    """The latest guarded step that the loop's body took."""


class LoopProof(Proof):
    """Writes and compares the witnesses of one loop.

    Args:
        board: the board to write witnesses to, or None to leave no witnesses.
    """

    def __init__(self, loop: WitnessedLoop, board: WitnessBoard | None) -> None:
        super().__init__(loop, board)
        self._loop = loop
        self._known: fingerprints.StateFingerprint | None = None
        self._digests = Digests(_SHARE)
        self._batch = 0
        self._is_first = True
        self._states = 0
        """The number of steps whose state was compared."""

    def checkpointed(self) -> None:
        """Record that a checkpoint was taken before the next step."""
        super().checkpointed()
        self._is_first = True

    def compare_from(self, epoch: int, step: int) -> None:
        """Compare the steps starting at this position, where the loop resumes."""
        super().compare_from(epoch, step)
        self._is_first = True

    def taken(self, epoch: int, step: int, batch: Any) -> None:
        """Fingerprint a step's batch before the loop's body receives it."""
        if self._board is not None:
            wanted = self._is_first or self._is_compared(STEP, epoch, step)
            self._batch = self._digests.of(batch, wanted)

    def stepped(self, epoch: int, step: int) -> None:
        """Write the witness of a completed step, and compare it with the witness from an earlier attempt."""
        self._did(epoch, step, 1)
        if self._board is None:
            return
        compared = self._is_compared(STEP, epoch, step)
        detailed = self._detailed > 0
        cheap = 0 <= self._state().seconds <= _CHEAP_SECONDS
        if self._is_first or compared or (detailed and cheap) or self._is_affordable():
            state = self._state_now()
            witness = Witness(self._key, STEP, epoch, step, self._batch, state, self._loss(), random=random_state())
            self._states += compared
        else:
            witness = Witness(self._key, STEP, epoch, step, self._batch)
        self._detailed -= detailed
        self._is_first = False
        if witness.batch or witness.result:
            self._leave(witness)

    def tell(self, at_the_end: bool) -> None:
        """Report the comparison once a state has been compared, or a difference was found."""
        found = self._comparison
        if found is not None and (self._states or found.difference is not None):
            super().tell(at_the_end)

    def _newest_state(self) -> fingerprints.StateFingerprint:
        return self._state()

    def _state(self) -> fingerprints.StateFingerprint:
        named = self._loop.variables.named
        if self._known is None or len(self._known.slots) != len(named):
            self._known = fingerprints.StateFingerprint([slot for _, slot in named], self._began)
        return self._known

    def _loss(self) -> float:
        """Return the loss from the latest guarded step, or 0.0 if there is none."""
        step = self._step_to_measure()
        return 0.0 if step is None or step.taken is None else loss_of(step.taken.logs)

    def _step_to_measure(self) -> Any:
        return self._loop.last_guarded

    def _rate(self) -> float:
        return 0.0
