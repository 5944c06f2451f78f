"""RunningFit: the facts and position of the running fit, used for its checkpoints, resumption and proof."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary, WeakSet, proxy

from oomph.checkpoint.container import Position
from oomph.checkpoint.witness import WitnessBoard
from oomph.exact_step.micro_batch.exactness import Promise
from oomph.journal.events import AtStep
from oomph.keras_bridge import fingerprints
from oomph.keras_bridge.models import learning_rate_of
from oomph.keras_bridge.runtime.allocator import peak_bytes_of_device
from oomph.monitor.finding import Finding
from oomph.protocol.reasons import Reason
from oomph.resume.fit import callbacks, model_state
from oomph.resume.fit.validation_data import ValidationData
from oomph.resume.state import training_state
from oomph.resume.training.data_position import DataPosition
from oomph.resume.training.fit_objects import FitObjects
from oomph.resume.training.fits import Fits
from oomph.resume.training.identity import FitIdentity
from oomph.resume.training.proof import Proof
from oomph.resume.training.provenance import Beginning
from oomph.terminal.amounts import counted

if TYPE_CHECKING:
    from typing_extensions import Self

_of_models: WeakKeyDictionary[Any, fingerprints.StateFingerprint] = WeakKeyDictionary()
"""The state fingerprint of each model, which is traced once per model rather than once per fit."""


class FitProof(Proof):
    """Writes and compares the witnesses of one fit.

    Args:
        board: the board to write witnesses to, or None to leave no witnesses.
    """

    def __init__(self, fit: RunningFit, board: WitnessBoard | None) -> None:
        super().__init__(fit, board)
        self._model = fit.model

    def _step_to_measure(self) -> Any:
        return self._model.train_function

    def _newest_state(self) -> fingerprints.StateFingerprint:
        return _of_models.get(self._model) or self._state()

    def _state(self) -> fingerprints.StateFingerprint:
        slots, known = training_state.trained_slots(self._model), _of_models.get(self._model)
        if known is None or not known.is_of(slots):
            known = _of_models[self._model] = fingerprints.StateFingerprint(slots, self._began)
        return known

    def _rate(self) -> float:
        return learning_rate_of(self._model.optimizer) or 0.0


class RunningFit:
    """The facts and position of one running fit.

    Args:
        identity: the fit's identity.
        promise: how the fit is guarded, as far as is known before tracing.
        arguments: the bound arguments of `fit`, which are passed on to Keras.
        turn: the values that distinguish this iteration of the script's loops from others.
    """

    compares_batches = True

    def __init__(
        self,
        fits: Fits,
        model: Any,
        identity: FitIdentity,
        promise: Promise,
        arguments: dict[str, Any],
        turn: dict[str, Any] | None = None,
    ) -> None:
        self.fits, self.model, self.identity, self.promise = fits, model, identity, promise
        self.arguments = arguments
        self.callbacks = callbacks.listed(arguments.get("callbacks"))
        """The user's callbacks, without oomph's own."""
        self.objects = FitObjects(model, arguments, self.callbacks)
        values, figures = self.objects.fingerprints(), self.objects.settings()
        self.beginning = Beginning(
            model, arguments, self.callbacks, values, figures, turn, is_in_cell=identity.cell is not None
        )
        self.epoch = int(arguments.get("initial_epoch") or 0)
        self.step = 0
        self.epoch_iterator: Any = None
        """Keras' epoch iterator over the training data, once it exists."""
        self.data = DataPosition(fits, self.objects)
        self.validation = ValidationData(arguments, model)
        self.trained = model_state.Trained(model)
        self.functions: WeakSet[Any] = WeakSet()
        """The `tf.function`s called while the fit runs, except for its own steps."""
        self.lost: list[Reason] = []
        """The reasons why parts of the state were not restored."""
        self.is_over = False
        """True if an earlier attempt trained at least as many epochs as the script asks for now."""
        self.seen_peak = 0
        """The peak device memory, in bytes, as read after some steps: the script may reset TensorFlow's own count."""
        self.short_epochs = ShortEpochs()
        self.aside = ""
        """The message that the guard is no longer in use, or empty; printed once Keras' own step has succeeded."""
        self.proof: Proof = FitProof(self.weakly, fits.witnesses)

    @property
    def weakly(self) -> Self:
        """A weak reference for the fit's own parts; a cycle would keep its data alive until garbage collection."""
        return cast("Self", proxy(self))

    @property
    def strategy(self) -> Any:
        """The strategy under which the model is trained."""
        return self.model.distribute_strategy

    @property
    def steps_at_once(self) -> int:
        """The number of steps between two borders."""
        return int(self.model.steps_per_execution)

    @property
    def position(self) -> Position:
        """The position of the next step."""
        return Position(self.identity.ordinal, self.epoch, self.step, self.fits.steps)

    def note_here(self, fact: AtStep) -> None:
        """Write an event to the journal, with the fit's position."""
        self.fits.note(fact.with_fields(fit=self.identity.ordinal, epoch=self.epoch, step=self.step))

    def write_board(self, is_epoch_over: bool = False) -> None:
        """Update the progress board."""
        of_epoch = getattr(self.epoch_iterator, "num_batches", None)
        is_over = is_epoch_over or (of_epoch is not None and 0 < of_epoch <= self.step)  # last step's callbacks
        self.fits.write_board(self.identity.ordinal, self.epoch, self.step, is_over)

    def measure_epoch(self) -> None:
        """Report a new epoch to the meter."""
        steps_per_epoch = getattr(self.epoch_iterator, "num_batches", None)
        self.fits.meter.begin_epoch(self.epoch, self.step, steps_per_epoch)

    def measure_step(self) -> None:
        """Report the steps just taken to the meter."""
        step = self.model.train_function
        self.fits.meter.stepped(self.step, self.fits.steps, step.taken.logs, getattr(step, "micro_batch", None))
        taken = self.step // self.model.steps_per_execution
        if taken & (taken - 1) == 0:  # only at powers of two, so a few times per epoch
            self.seen_peak = max(self.seen_peak, peak_bytes_of_device() or 0)


# -- epochs whose data ran out ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ShortEpoch:
    """An epoch whose data ran out before its last step."""

    epoch: int
    steps: int
    """The number of steps that the epoch actually had."""
    wanted: int


class ShortEpochs:
    """Collects a fit's epochs whose data ran out in this process."""

    def __init__(self) -> None:
        self.found: list[ShortEpoch] = []
        self._longest = 0

    def end(self, epoch: int, steps: int, wanted: int | None, is_one_pass: bool = False) -> ShortEpoch | None:
        """Record an epoch and return it if it was too short. Don't call this for an epoch that a callback stopped.

        Args:
            steps: the number of steps that the epoch had.
            wanted: `steps_per_epoch`; if None, epochs may differ in length, but must not be empty.
            is_one_pass: True for a generator, of which Keras keeps only the first two batches for later epochs.
        """
        due = wanted or (self._longest if is_one_pass or not steps else 0)
        self._longest = max(self._longest, steps)
        if steps >= due:
            return None
        short = ShortEpoch(epoch, steps, due)
        self.found.append(short)
        return short

    def finding(self) -> Finding:
        """Describe all short epochs in a single finding."""
        first, last = self.found[0], self.found[-1]
        if len(self.found) == 1:
            which = f"epoch {first.epoch + 1}, which had {last.steps} of its {counted(last.wanted, 'step')}"
        else:
            missing = sum(each.wanted - each.steps for each in self.found)
            epochs = f"{len(self.found)} epochs, the last of them epoch {last.epoch + 1}"
            which = f"{epochs}: {missing} steps were not trained"
        return Finding(
            fault="input-pipeline", subject="training data", message=f"the data ran out in {which}", kind="ran out",
            remedy=(
                "Leave steps_per_epoch out, or make the data endless: dataset.repeat(), while True in a generator, no "
                "__len__ in a PyDataset"
            ),
        )  # fmt: skip
