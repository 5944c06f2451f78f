"""Division: how batches of one layout are split into micro-batches, and the verdict on the result."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import tensorflow as tf

from oomph.errors import UnsupportedError
from oomph.exact_step.micro_batch.exactness import (
    APPROXIMATE,
    BATCH_NORMALIZATION,
    EXACT,
    REFUSED,
    RESTART_ONLY,
    SMALLER,
    TO_BE_PROBED,
    Promise,
    promise_before_tracing,
)
from oomph.exact_step.micro_batch.gradient_accumulation import AccumulatedStep
from oomph.exact_step.micro_batch.micro_batch_step import MicroBatchStep, essence
from oomph.exact_step.step.full_batch_step import FullBatchStep
from oomph.exact_step.step.out_of_memory import Failed, attempt
from oomph.exact_step.step.probe import FEW_SAMPLES, SAMPLES, Probe, ProbeFinding, coarsest_type
from oomph.keras_bridge.batch import batches
from oomph.keras_bridge.dialects import dialect_of
from oomph.keras_bridge.graph import SmallState, handles_of
from oomph.keras_bridge.names.keras3 import KERAS
from oomph.keras_bridge.runtime.patching import replaced
from oomph.keras_bridge.stateful_random_ops import KeptRandomOps
from oomph.protocol.handover import Guarding
from oomph.protocol.reason_table import DRAWS, NORMALIZATION, SUMS

TellFailed = Callable[[Failed, int, float], None]
"""Called with a failed probe, the number of samples it used, and the time, in seconds, that it took."""


def _tell_nobody(failed: Failed, samples: int, seconds: float) -> None:
    """Ignore a failed probe."""


METRIC = "metric "
_FEWER_SAMPLES = (FEW_SAMPLES, 2)
"""The sample counts with which to retry a probe when the usual number does not fit into memory."""
_OF_ANY_SIZE = "if the step hard-codes a batch size, replace it with tf.shape(x)[0], which works for parts of any size"
_HIDDEN_DRAWS = "random numbers that TensorFlow cannot draw again"


@dataclass(frozen=True)
class Choice:
    """The user's choices for a batch that cannot be split into micro-batches without changing the result."""

    inexact: str | None = None
    """"allow" or "refuse" for every coupling between samples, or None to allow only the common, known ones."""
    smaller_batch: bool | None = None
    """True if an unsplittable batch may be trained on as several smaller batches, or None if that is impossible."""


def choice_of(guarding: Guarding) -> Choice:
    """Return the user's choices for this run."""
    return Choice(guarding.inexact, guarding.smaller_batch)


def find(
    model: Any,
    divided: AccumulatedStep,
    step: Callable[[Any], Any],
    batch: Any,
    size: int,
    small: SmallState,
    most: int = SAMPLES,
    tell: TellFailed = _tell_nobody,
) -> ProbeFinding:
    """Probe the step with `most` samples of this batch. Never raises, and leaves the model unchanged.

    BatchNormalization makes every split give a different result. The probe switches it to its moving statistics, so
    that other couplings between samples become visible.
    """
    normalising = batch_normalizations(model, small)
    try:
        divided.micro_step.trace(batch, small)
        if divided.micro_step.reason:
            return ProbeFinding(0, conclusive=False, obstacle=divided.micro_step.reason)
        if normalising:
            part = MicroBatchStep(model, step, divided.trains, divided.micro_step.kept)
            resting = AccumulatedStep(model, part, None)
            with _at_rest(normalising):
                found = _probed(model, resting, batch, size, small, most, tell)
            divided.settle_as(resting.kinds())
            return replace(found, normalises=True)
        return _probed(model, divided, batch, size, small, most, tell)
    except UnsupportedError as error:
        return ProbeFinding(0, conclusive=False, obstacle=str(error))


def judge(promise: Promise, finding: ProbeFinding, choice: Choice) -> Promise:
    """Return the promise after the probe, as a pure function.

    By default, common, known couplings (BatchNormalization, random numbers that cannot be drawn again, metrics that are
    not means) are allowed but labelled, and unknown ones are refused.
    """
    if finding.obstacle:
        return _refused(finding.obstacle, choice)
    if finding.failure:
        return _failing(f"the step fails on part of a batch ({finding.failure})", choice)
    if finding.hidden_draws:
        return _inexact(_HIDDEN_DRAWS, usual=True, choice=choice, coupling=DRAWS)
    if not finding.conclusive and promise.kind == TO_BE_PROBED:
        return _inexact(f"{promise.reason}, and {finding.why_nothing}", usual=False, choice=choice)
    if finding.no_memory:
        return _inexact(f"each sample is treated independently, but {finding.why_nothing}", usual=True, choice=choice)
    if not finding.has_equal_gradients:
        shown = finding.incomparable or f"relative difference {finding.gradients:.1g}"
        reason = f"the update depends on which samples share a batch (probe: {shown})"
        return _inexact(reason, usual=False, choice=choice)
    if not finding.state <= finding.tolerance:
        reason = f"{finding.worst} depends on which samples share a batch"
        is_metric = finding.worst.startswith(METRIC)
        return _inexact(reason, usual=is_metric, choice=choice, coupling=SUMS if is_metric else "")
    if not finding.returned <= max(finding.tolerance, 1e-6):
        reason = "a number that the step returns is not a mean over samples"
        return _inexact(reason, usual=True, choice=choice, coupling=SUMS)
    if finding.normalises:
        return _inexact(BATCH_NORMALIZATION, usual=True, choice=choice, coupling=NORMALIZATION)
    return Promise(EXACT)


def batch_normalizations(model: Any, small: SmallState) -> list[Any]:
    """List the layers that normalize with batch statistics in a step that writes this small state."""
    written = {id(slot.handle) for slot in small.slots}
    layers = [
        layer for layer in KERAS.flatten_layers.call(model) if getattr(layer, "moving_variance", None) is not None
    ]
    return [layer for layer in layers if not written.isdisjoint(handles_of([layer.moving_variance]))]


def _failing(reason: str, choice: Choice) -> Promise:
    """Return the promise for a step that fails on a few samples; an option can allow micro-batches anyway."""
    if choice.inexact == "allow" or choice.smaller_batch:
        return Promise(APPROXIMATE if choice.inexact == "allow" else SMALLER, reason)
    return Promise(REFUSED, f"{reason}; {_OF_ANY_SIZE}")


def _inexact(reason: str, usual: bool, choice: Choice, coupling: str = "") -> Promise:
    if choice.inexact == "allow" or (usual and choice.inexact != "refuse"):
        return Promise(APPROXIMATE, reason, coupling)
    return _refused(reason, choice, [] if usual else ["--inexact=allow accepts that"])


def _refused(reason: str, choice: Choice, ways_out: Sequence[str] = ()) -> Promise:
    if choice.smaller_batch:
        return Promise(SMALLER, reason)
    if choice.smaller_batch is not None:
        ways_out = [*ways_out, "--allow-smaller-batch trains on smaller batches, each with its own update"]
    return Promise(REFUSED, "; ".join([reason, *ways_out]))


def _probed(
    model: Any, divided: AccumulatedStep, batch: Any, size: int, small: SmallState, most: int, tell: TellFailed
) -> ProbeFinding:
    if divided.micro_step.draws_from_hidden_state:
        return ProbeFinding(0, conclusive=False, hidden_draws=True)
    divided.compiled = False
    tries = [most, *(fewer for fewer in _FEWER_SAMPLES if fewer < most)]
    try:
        for samples in tries:
            began = time.monotonic()
            found = attempt(partial(_probed_both_ways, model, divided, batch, size, small, samples))
            if not isinstance(found, Failed):
                break
            tell(found, samples, time.monotonic() - began)
    except Exception as error:  # raised by the user's step, on fewer samples than usual
        return ProbeFinding(0, conclusive=False, failure=essence(error))
    finally:
        divided.compiled = True
    return ProbeFinding(0, conclusive=False, no_memory=True) if isinstance(found, Failed) else found


def _probed_both_ways(
    model: Any, divided: AccumulatedStep, batch: Any, size: int, small: SmallState, samples: int
) -> ProbeFinding:
    """Probe the step with its loss treated as a mean or sum, as before; if the results differ, try the other kind."""
    probe, summed = Probe(divided, coarsest_type(model)), divided.micro_step.summed
    found = probe.run(batch, size, small, _names(model), samples)
    if found.has_equal_gradients or not found.conclusive:
        return found
    divided.micro_step.take_for(not summed)
    divided.micro_step.trace(batch, small)
    other = probe.run(batch, size, small, _names(model), samples)
    if other.has_equal_gradients:
        return other
    divided.micro_step.take_for(summed)
    return found


@contextmanager
def _at_rest(layers: list[Any]) -> Iterator[None]:
    """Within the block, make these layers use their moving statistics without updating them."""

    def resting(call: Callable[..., Any]) -> Callable[..., Any]:
        def at_rest(inputs: Any, training: Any = None, mask: Any = None) -> Any:
            return call(inputs, training=False, mask=mask)

        return at_rest

    with ExitStack() as undo:
        for layer in layers:
            undo.enter_context(replaced(layer, "call", resting(layer.call)))
        yield


def _names(model: Any) -> dict[int, str]:
    """Return the names of state variables, keyed by the ids of their handles."""
    names: dict[int, str] = {}
    kinds = (("", model.non_trainable_variables), (METRIC, dialect_of(model).metrics_variables(model)))
    for kind, variables in kinds:
        for variable in variables:
            name = kind + str(getattr(variable, "path", variable.name))
            names |= dict.fromkeys(handles_of([variable]), name)
    return names


class Division:
    """A model's step for batches of one layout (`batches.layout_of`), and the verdict on splitting them.

    Batches with and without sample weights lead to two different steps: they run different operations, and different
    weights may have gradients. A probe of one says nothing about the other.

    Args:
        model: a compiled Keras model.
        step: the model's `train_step` or `test_step`.
        commits: the variable that counts commits, or None for a step that trains nothing.
        promise: what is known about micro-batches before anything is traced.
        choice: what the user accepts if micro-batches change the result.
        combine: how returned numbers are combined over micro-batches, "mean" or "sum", or None to let the probe find
            out.
        kept: the counts of the full step's random operations.
    """

    def __init__(
        self,
        model: Any,
        step: Callable[[Any], Any],
        commits: tf.Variable | None,
        promise: Promise,
        choice: Choice,
        combine: str | None = None,
        kept: KeptRandomOps | None = None,
    ) -> None:
        self._model, self._step = model, step
        self._promise, self._choice = promise, choice
        self.divided = AccumulatedStep(model, MicroBatchStep(model, step, commits is not None, kept), commits)
        self.divided.combine = combine
        self.verdict: Promise | None = None
        """The promise for micro-batches, or None before a probe."""
        self.rounding = 0.0
        """The relative difference between the full batch and its micro-batches, as found by the probe."""
        self._steps, self._next_probe = 0, 2
        self._fitting = SAMPLES
        """The most samples that a probe may use: every attempt with too many costs ten seconds."""

    def is_time_to_probe_again(self) -> bool:
        """True after 2, 5, 11, 23, ... divided steps, if the verdict rests on a probe alone.

        A coupling may show only in rare samples. Each call counts as one divided step, so call this exactly once per
        step.
        """
        if self._promise.kind != TO_BE_PROBED or self.verdict is None or self.verdict.kind != EXACT:
            return False
        self._steps += 1
        if self._steps < self._next_probe:
            return False
        self._next_probe = 2 * self._next_probe + 1
        return True

    def probe(
        self, batch: Any, size: int, small: SmallState, most: int, tell: TellFailed = _tell_nobody
    ) -> ProbeFinding | None:
        """Probe with samples of this batch; return None if this probe is inconclusive but an earlier one was not.

        Args:
            size: the number of samples on the busiest replica.
            small: the state that the step writes, apart from weights.
            most: how many samples to probe with; fewer are used if a probe with more did not fit before.
            tell: called for each out-of-memory error, with the number of samples tried and the time, in seconds, that
                it took.
        """
        kinds = self.divided.kinds()
        asked = min(most, self._fitting)
        found = find(self._model, self.divided, self._step, batch, size, small, asked, tell)
        if found.no_memory or 0 < found.samples < min(asked, size):
            self._fitting = max(found.samples, _FEWER_SAMPLES[-1])
        if self.verdict is None or not found.says_nothing:
            return found
        self.divided.settle_as(kinds)  # discard what the inconclusive probe settled
        return None

    def settle(self, found: ProbeFinding) -> Promise:
        """Derive the verdict from a finding, adopt it, and return it."""
        judged = judge(self._promise, found, self._choice)
        self.rounding = found.difference if judged.kind == EXACT else 0.0
        if self.verdict is not None and judged.kind != EXACT:
            judged = replace(judged, reason=f"{judged.reason}; found after {self._steps} divided steps")
        self.verdict = judged
        return judged


def foretold(model: Any, batch: Any, most: int = SAMPLES) -> tuple[Promise, ProbeFinding | None]:
    """Return the promise that `oomph run` would make for batches like this one, and the probe's finding, if any.

    Args:
        model: a compiled model, whose variables are left unchanged.
        batch: one batch, as passed to `train_step`.
        most: how many samples to probe with.
    """
    promise = promise_before_tracing(model)
    if promise.kind == RESTART_ONLY:
        return promise, None
    step = FullBatchStep(model, model.train_step, can_go_back=False)
    division = Division(model, model.train_step, step.commits, promise, choice_of(Guarding()), kept=step.draws)
    step.build_metrics(batch)
    found = division.probe(batch, batches.size_of(batch) or 0, step.state_of(batch), most)
    return (promise, None) if found is None else (division.settle(found), found)
