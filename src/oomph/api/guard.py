"""guard: applies the exact step to a custom training step."""

from __future__ import annotations

import functools
import inspect
import sys
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar, overload
from weakref import WeakKeyDictionary

from oomph import testing
from oomph.api.custom_step import Loop, steps_before
from oomph.exact_step.micro_batch.exactness import TO_BE_PROBED, Promise
from oomph.exact_step.micro_batch.micro_batch_step import python_of
from oomph.exact_step.step import division
from oomph.exact_step.step.guarded_step import GuardedStep
from oomph.exact_step.step.probe import ProbeFinding
from oomph.exact_step.step.step_protocol import FailedProbe, Failure, PlainStep, Recovery, Step, facts_of_probe
from oomph.journal.events import GaveUp, GuardFailed, LoopSeen, MicroBatchesProbed, Oom, ProbeFailed, Recovered
from oomph.keras_bridge.names import support
from oomph.keras_bridge.names.row import Feature
from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW
from oomph.keras_bridge.workers import name_of
from oomph.protocol.progress import Phase
from oomph.resume.loop import loops
from oomph.resume.training.identity import call_site
from oomph.script import session
from oomph.script.kept_micro_batches import Start
from oomph.script.loop_location import enclosing_loops
from oomph.script.script_line import unseen

_COMBINE = ("mean", "sum")
_StepT = TypeVar("_StepT", bound=Callable[..., Any])


@overload
def guard(step: _StepT, *, batched: Sequence[str] | None = None, combine: str | None = None) -> _StepT: ...
@overload
def guard(
    step: None = None, *, batched: Sequence[str] | None = None, combine: str | None = None
) -> Callable[[_StepT], _StepT]: ...
def guard(
    step: Callable[..., Any] | None = None, *, batched: Sequence[str] | None = None, combine: str | None = None
) -> Any:
    """Make a training step survive running out of memory: split the batch into micro-batches, but update only once.

        @oomph.guard(batched=("images", "labels"))
        @tf.function
        def train_step(images, labels):
            with tf.GradientTape() as tape:
                loss = loss_of(labels, model(images, training=True))
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables))
            return loss

    The step must work in `tf.function`, with one forward pass, and one call to `apply` or `apply_gradients` for each
    optimizer. Variables are not assigned until all gradients have been computed. Before a batch is split for the first
    time, a probe compares the results for a few samples as a whole and in two micro-batches. If they differ, batches
    are not split, and the error reaches the caller. As long as memory suffices, the step still runs as a single
    function.

    Args:
        step: the step, usually a `tf.function`, whose `jit_compile` setting is kept.
        batched: the names of the arguments with one entry per sample; all arguments by default. The others must be
            plain Python values, as for `tf.function`.
        combine: how to combine the numbers that the step returns for each micro-batch, "mean" or "sum"; determined by
            the probe by default. Results with one entry per sample are concatenated; metric results are read at the
            end.

    Raises:
        TypeError: immediately, if `batched` contains the name of an argument that the step does not have.
        tf.errors.ResourceExhaustedError: if a single sample does not fit, or if the step cannot be split.
    """
    if step is None:
        return functools.partial(guard, batched=batched, combine=combine)
    if combine is not None and combine not in _COMBINE:
        raise ValueError(f"combine must be one of {', '.join(_COMBINE)}, not {combine}")
    guarded = _GuardedLoop(step, batched, combine)
    return functools.update_wrapper(guarded, getattr(step, "python_function", step))


class _GuardedLoop:
    """A callable that replaces the user's step."""

    def __init__(self, step: Callable[..., Any], batched: Sequence[str] | None, combine: str | None) -> None:
        self.python = python_of(step)
        self.original, self.combine = step, combine
        self._signature = inspect.signature(getattr(step, "python_function", step))
        names = list(self._signature.parameters)
        self._batched = tuple(names if batched is None else batched)
        unknown = [name for name in self._batched if name not in names]
        if unknown:
            raise TypeError(f"{self.name} has no argument {unknown[0]}")
        self._all = batched is None
        self._steps: dict[Any, GuardedStep | PlainStep] = {}
        self._bound: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()

    @unseen
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if support.lacks(Feature.EXACT_STEP):
            return self.original(*args, **kwargs)
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        batch = {name: bound.arguments[name] for name in self._batched}
        rest = {name: value for name, value in bound.arguments.items() if name not in self._batched}
        key = tuple(sorted(rest.items()))
        try:
            known = self._steps.get(key)
        except TypeError:
            raise TypeError(
                f"{self.name}: batched must list every argument that contains tensors; "
                f"{', '.join(rest)} must be plain values"
            ) from None
        if known is None:
            known = self._steps[key] = _step_of(self, batch, rest)
        return known(iter([batch]))

    def run(self, rest: dict[str, Any], batch: dict[str, Any]) -> Any:
        """Run the user's step in Python."""
        return self.call(self.python, {**rest, **batch})

    def call(self, function: Callable[..., Any], values: dict[str, Any]) -> Any:
        """Call a function that has the same signature as the step."""
        bound = inspect.BoundArguments(self._signature, OrderedDict((n, values[n]) for n in self._signature.parameters))
        return function(*bound.args, **bound.kwargs)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Return the step as a bound method, which is guarded separately for each object."""
        if instance is None:
            return self
        if instance not in self._bound:
            batched = None if self._all else self._batched
            self._bound[instance] = guard(self.original.__get__(instance, owner), batched=batched, combine=self.combine)
        return self._bound[instance]

    @property
    def name(self) -> str:
        """The name of the step."""
        return str(getattr(self.original, "__name__", "step"))


class _SharedStep(PlainStep):
    """A step whose batches the replicas of a strategy share. It is not split, since it exchanges values within."""

    def __init__(self, model: Loop, plain: Callable[[Any], Any], watch: LoopWatch, strategy: Any) -> None:
        super().__init__(model, plain, lambda: watch)
        self._strategy = strategy

    def __call__(self, iterator: Any) -> Any:
        try:
            return super().__call__(iterator)
        except Exception as error:
            loops.leave_for_the_others(self._strategy, error)
            raise


def _step_of(loop: _GuardedLoop, batch: dict[str, Any], rest: dict[str, Any]) -> GuardedStep | PlainStep:
    def train_step(data: dict[str, Any]) -> Any:
        return loop.run(rest, data)

    def plain(iterator: Any) -> Any:
        return loop.call(loop.original, {**rest, **next(iterator)})

    jit_compile = bool(TENSORFLOW.jit_compile.get(loop.original, False))
    model = Loop(train_step, batch, jit_compile)
    watch, strategy = LoopWatch(loop.name, model.optimizers), model.shared_by
    if strategy is not None:
        session.say(f"micro-batches of {loop.name}: none, since replicas of {name_of(strategy)} share each batch")
        return _SharedStep(model, plain, watch, strategy)
    promise = Promise(TO_BE_PROBED, f"custom step {loop.name}")
    joined = session.current()
    choice = division.Choice() if joined is None else division.Choice(joined.handover.guarding.inexact)
    guarded = GuardedStep(
        model, train_step, plain, lambda: watch, promise, choice, combine=loop.combine, can_go_back=False
    )  # fmt: skip
    if joined is not None and joined.handover.guarding.micro_batch is not None:
        guarded.begin_with(Start(joined.handover.guarding.micro_batch))
    return guarded


class LoopWatch:
    """Reports on a guarded step to stderr and to the run's journal.

    Args:
        name: the step's name.
        optimizers: the optimizers that the step uses.
    """

    compares_batches = False

    def __init__(self, name: str, optimizers: Sequence[Any]) -> None:
        self._name, self._optimizers = name, optimizers
        self._told = False

    def before_step(self, step: Step, iterator: Any) -> None:
        loop = loops.running()
        if loop is not None and isinstance(step, GuardedStep):
            loop.saw_guarded(step)

    def after_step(self) -> None:
        joined = session.current()
        if joined is None or loops.running() is not None:  # a resumable loop counts its own steps
            return
        restored = 0 if self._told else steps_before(self._optimizers, applied=True)
        if joined.board is not None:
            testing.steps_committed(joined.board.count_step(restored))
        loops.note_step()
        loops.note_committed()
        if not self._told:
            self._told = True
            lines = enclosing_loops(sys._getframe(1))
            joined.journal.write(LoopSeen(site=call_site(), loops=lines, restored=restored, guarded=True))
        joined.pulse.beat(Phase.LOOP)

    def failed(self, failure: Failure) -> None:
        joined = session.current()
        if joined is not None:
            joined.pulse.beat(Phase.RECOVERING)
        session.note(
            Oom(during=self._name, batch=failure.batch, micro_batch=failure.micro_batch, phase=failure.phase,
            message=failure.oom.line, requested_bytes=failure.oom.requested_bytes, seconds=round(failure.seconds, 3),
        ))  # fmt: skip

    def recovered(self, recovery: Recovery) -> None:
        session.note(
            Recovered(during=self._name, batch=recovery.batch, micro_batch=recovery.micro_batch,
            ooms=recovery.ooms, seconds=round(recovery.seconds, 3),
        ))  # fmt: skip
        loop = loops.running()
        if loop is not None:
            loop.fits.remember_micro_batch(loop.identity, Start(recovery.micro_batch))
        session.say(
            f"recovered in {recovery.seconds:.1f} s: {self._name} runs its batch of {recovery.batch} as"
            f" micro-batches of {recovery.micro_batch}"
        )

    def probe_failed(self, failed: FailedProbe) -> None:
        session.note(ProbeFailed(during=self._name, **facts_of_probe(failed)))

    def probed(self, promise: Promise, finding: ProbeFinding) -> None:
        session.note(
            MicroBatchesProbed(
                during=self._name,
                kind=promise.kind,
                reason=promise.reason,
                coupling=promise.coupling,
                **finding.facts(),
            )
        )
        session.say(f"micro-batches of {self._name}: {promise}")

    def not_recoverable(self, error: BaseException, phase: str, reason: str, begin: Start | None) -> NoReturn:
        loop = loops.running()
        if loop is not None:
            loop.go_back(error, phase, reason, begin)
        session.note(GaveUp(fault="device-oom", reason=reason))
        raise error

    def guard_broken(self, error: BaseException) -> None:
        session.note(GuardFailed(reason=f"{type(error).__name__}: {error}"[:2000]))
