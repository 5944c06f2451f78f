"""The protocol between a step and its fit: how `model.train_function` is replaced, and what a step reports."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

from oomph import testing
from oomph.exact_step.micro_batch.exactness import Promise
from oomph.exact_step.step.probe import ProbeFinding
from oomph.keras_bridge.batch.batches import without_optionals
from oomph.keras_bridge.dialects import dialect_of
from oomph.keras_bridge.graph import Slot
from oomph.keras_bridge.models import calls_not_counted
from oomph.keras_bridge.runtime.allocator import run_out_of_memory
from oomph.keras_bridge.runtime.errors import DeviceOutOfMemory, as_out_of_memory, handled
from oomph.script.kept_micro_batches import Start


@dataclass(frozen=True)
class Failure:
    """One out-of-memory error in a step."""

    oom: DeviceOutOfMemory
    error: BaseException
    phase: str
    """"compute" if nothing was assigned, "commit" if assigning had started, "input" if the step had no batch yet."""
    batch: int | None
    micro_batch: int | None
    seconds: float


@dataclass(frozen=True)
class FailedProbe:
    """One out-of-memory error in a probe, which changes nothing."""

    oom: DeviceOutOfMemory
    samples: int
    seconds: float
    """The time that the failed probe took; TensorFlow alone waits for ten seconds."""


def facts_of_probe(failed: FailedProbe) -> dict[str, Any]:
    """Return the fields of the event `probe-failed`, except for the position."""
    return {
        "samples": failed.samples,
        "seconds": round(failed.seconds, 3),
        "message": failed.oom.line,
        "requested_bytes": failed.oom.requested_bytes,
    }


@dataclass(frozen=True)
class Recovery:
    """A step that completed after out-of-memory errors."""

    batch: int
    micro_batch: int
    ooms: int
    seconds: float


@dataclass(frozen=True)
class Taken:
    """The results of a completed execution, for comparison. Nothing has been read from the device yet."""

    logs: Any
    fingerprint: Any = None
    """The fingerprint of the execution's batches (`fingerprints.py`), or None if not computed."""


class StepWatch(Protocol):
    """Receives reports about the steps of a model: either the fit that runs them or a default."""

    compares_batches: bool
    """True if this receiver compares batches, so that their fingerprints must be computed."""

    def before_step(self, step: Step, iterator: Any) -> None: ...

    def after_step(self) -> None: ...

    def failed(self, failure: Failure) -> None: ...

    def recovered(self, recovery: Recovery) -> None: ...

    def probe_failed(self, failed: FailedProbe) -> None: ...

    def probed(self, promise: Promise, finding: ProbeFinding) -> None:
        """Receive the verdict on micro-batches."""
        ...

    def not_recoverable(self, error: BaseException, phase: str, reason: str, begin: Start | None) -> NoReturn:
        """Exit so that the restart begins with the micro-batch `begin`, or raise the user's own error."""
        ...

    def guard_broken(self, error: BaseException) -> None: ...


class Step(Protocol):
    """A replacement for `model.train_function`."""

    def __call__(self, iterator: Any) -> Any: ...

    def prepare(self, iterator: Any) -> None:
        """Trace the step for this kind of iterator, so that every variable exists. Does not consume a batch."""
        ...

    def begin_with(self, start: Start) -> None:
        """Start with micro-batches of this size, if possible."""
        ...

    def extra_state(self) -> list[Slot]:
        """List the variables that the step writes but that neither the model nor its optimizer lists."""
        ...

    @property
    def taken(self) -> Taken | None:
        """The results of the last execution, or None if there are none."""
        ...


def run_plain(plain: Callable[[Any], Any], iterator: Any, watch: StepWatch) -> Any:
    """Run Keras' own function. If it runs out of memory, report the error and re-raise it to the script."""
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
        """Build what Keras would build in its first step, as far as possible without consuming data."""
        spec = without_optionals(getattr(iterator, "element_spec", None))
        built = self._model.built
        try:
            with calls_not_counted(self._model):
                dialect_of(self._model).build(self._model, spec)
        except Exception:  # the model has no `call`, or one that needs data
            self._model.built = built  # Keras marks the model as built before the error

    def begin_with(self, start: Start) -> None:
        pass

    def extra_state(self) -> list[Slot]:
        return []
