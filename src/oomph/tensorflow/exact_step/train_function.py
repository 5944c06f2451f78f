"""What `model.train_function` becomes under oomph, and what it reports: the protocol between a step and its fit."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

from oomph import testing
from oomph.recovery.script.kept_micro_batches import Start
from oomph.tensorflow.batch.batches import without_optionals
from oomph.tensorflow.exact_step.probe import Finding
from oomph.tensorflow.graph.write_set import Slot
from oomph.tensorflow.micro_batch.exactness import Promise
from oomph.tensorflow.names.keras3 import KERAS
from oomph.tensorflow.runtime.allocator import run_out_of_memory
from oomph.tensorflow.runtime.errors import OutOfMemory, as_out_of_memory, handled
from oomph.tensorflow.state.layer_state import calls_not_counted


@dataclass(frozen=True)
class Failure:
    """One out-of-memory error of one step."""

    oom: OutOfMemory
    error: BaseException
    phase: str
    """"compute": nothing was assigned; "commit": assigning had begun; "input": before the step had its batch."""
    batch: int | None
    micro_batch: int | None
    seconds: float


@dataclass(frozen=True)
class Recovery:
    """A step that was completed after out-of-memory errors."""

    batch: int
    micro_batch: int
    ooms: int
    seconds: float


@dataclass(frozen=True)
class Taken:
    """What an execution that is complete leaves to be compared with: nothing of it has been read yet."""

    logs: Any
    fingerprint: Any = None
    """Of its batches (`fingerprints.py`); None where nobody has seen them."""


class StepWatch(Protocol):
    """Who is told about the steps of a model: the fit that runs it, or nobody in particular."""

    compares_batches: bool
    """Whether it reads the fingerprints of batches."""

    def before_step(self, step: Step, iterator: Any) -> None: ...

    def after_step(self) -> None: ...

    def failed(self, failure: Failure) -> None: ...

    def recovered(self, recovery: Recovery) -> None: ...

    def probed(self, promise: Promise, finding: Finding) -> None:
        """It has been found what micro-batches are worth."""
        ...

    def not_recoverable(self, error: BaseException, phase: str, reason: str, begin: Start | None) -> NoReturn:
        """Ends the process for a restart that begins with that micro-batch, or raises the user's own error."""
        ...

    def guard_broken(self, error: BaseException) -> None: ...


class Step(Protocol):
    """What `model.train_function` becomes."""

    def __call__(self, iterator: Any) -> Any: ...

    def prepare(self, iterator: Any) -> None:
        """Trace for this kind of input, so that every variable exists; nothing is taken from the iterator."""
        ...

    def begin_with(self, start: Start) -> None:
        """Take micro-batches of that size first, where that can be done."""
        ...

    def extra_state(self) -> list[Slot]:
        """Variables that the step writes and that neither the model nor its optimizer lists."""
        ...

    @property
    def taken(self) -> Taken | None:
        """The last execution."""
        ...


def run_plain(plain: Callable[[Any], Any], iterator: Any, watch: StepWatch) -> Any:
    """Run Keras' own function; an out-of-memory error is told, and stays the script's."""
    started = time.monotonic()
    try:
        with handled():
            return plain(iterator)
    except Exception as error:
        oom = as_out_of_memory(error)
        if oom is not None:
            watch.failed(Failure(oom, error, "unguarded", None, None, time.monotonic() - started))
        raise


class PlainStep:
    """Keras' own train function, watched but not guarded."""

    def __init__(self, model: Any, plain: Callable[[Any], Any], watch: Callable[[], StepWatch]) -> None:
        self._model, self._plain, self._watch = model, plain, watch
        self.taken: Taken | None = None

    def __call__(self, iterator: Any) -> Any:
        watch = self._watch()
        watch.before_step(self, iterator)
        injector = testing.active()
        plain = run_out_of_memory if injector is not None and injector.refuses_plain_step() else self._plain
        logs = run_plain(plain, iterator, watch)
        self.taken = Taken(logs)
        watch.after_step()
        return logs

    def prepare(self, iterator: Any) -> None:
        """Build what Keras would build at its first step, as far as it can be built without taking data."""
        spec = without_optionals(getattr(iterator, "element_spec", None))
        built = self._model.built
        try:
            with calls_not_counted(self._model):
                KERAS.symbolic_build.call(self._model, data_batch=spec)
        except Exception:  # a model that has no `call`, or needs the data for it
            self._model.built = built  # Keras has noted it down as built before it failed

    def begin_with(self, start: Start) -> None:
        pass

    def extra_state(self) -> list[Slot]:
        return []
