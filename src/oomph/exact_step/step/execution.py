"""One execution: the step, or the `steps_per_execution` steps, that Keras runs in one call on an iterator.

If a step runs inside TensorFlow, its batch is held until the step has finished, so that a failed step can be retried on
the same batch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from oomph.exact_step.commit import HOST, Hold, without_barriers
from oomph.keras_bridge import fingerprints
from oomph.keras_bridge.batch import batches
from oomph.keras_bridge.graph import Slot, inlined
from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW
from oomph.keras_bridge.workers import Numbers


@dataclass(frozen=True)
class OnlySpec:
    """Stands in for an iterator that does not exist yet, for code that needs to know only its kind."""

    _type_spec: tf.data.IteratorSpec
    """The spec of an iterator over a `tf.data.Dataset`."""

    @property
    def element_spec(self) -> Any:
        """The spec of the iterator's batches."""
        return TENSORFLOW.element_spec.of(self._type_spec)


@dataclass(frozen=True)
class Execution:
    """The number of steps per call, and the variable that counts completed steps."""

    steps: int
    completed: tf.Variable
    witnessed: bool = False
    """True to compute the fingerprints of the batches along with the steps."""
    device: str = HOST
    """The device on which the iterator puts its batches."""


class Form:
    """The step compiled for one kind of iterator, together with taking the batch from it.

    Args:
        one: the step as a function of a batch.
        state: the small state that the step writes before its commit.
        pinned: variables whose buffers must stay alive if the step fails.
        execution: how many steps one call runs.
    """

    def __init__(
        self, one: Any, iterator_spec: Any, spec: Any, state: list[Slot], pinned: list[Slot], execution: Execution
    ) -> None:
        self._one, self._compiled_by_xla = one, bool(TENSORFLOW.jit_compile.of(one))
        self.spec, self.state = spec, state
        self._iterator_spec = iterator_spec
        self._execution = execution
        self.proven = False
        """True if the form has run at least once without running out of memory."""
        self.can_be_repaired = True
        """True if a failure in the compute phase leaves everything unchanged."""
        self.lighter_at: float | None = None
        """The monotonic time after which to hold less, or None if that never happens or already has."""
        self.completed = 0
        """The number of steps completed before the current call."""
        self.numbers: Numbers = {}
        """The numbers of collective operations that the step itself takes, in addition to those for its batch."""
        self._step = one if self._compiled_by_xla else inlined(one.get_concrete_function(spec))
        self.hold, self.run = self._compiled(self._step, pinned)

    def hold_less(self) -> None:
        """Hold only the batch and the small state from now on, and assign each value as soon as it exists."""
        self.lighter_at, step = None, self._step
        try:
            if not self._compiled_by_xla:
                concrete = self._one.get_concrete_function(self.spec)
                step = inlined(concrete, without_barriers(concrete.graph))
            lighter = self._compiled(step, [])
        except Exception:  # an error in oomph itself: the form still works as it is
            return
        (self.hold, self.run), self.can_be_repaired = lighter, False

    def batch_held(self) -> Any:
        """Return the failed step's batch, or None if the step failed before it had one."""
        tensors = self.hold.take_batch()
        return None if tensors is None else batches.with_tensors(self.spec, tensors)

    def _compiled(self, step: Callable[..., Any], pinned: list[Slot]) -> tuple[Hold, Callable[[Any], Any]]:
        hold = Hold([leaf.dtype for leaf in batches.tensors_of(self.spec)], self.state, pinned, self._execution.device)

        def held_step(batch: Any) -> tuple[Any, Any]:
            batch = batches.without_optionals(batch)
            held = hold.put(batches.tensors_of(batch))
            fingerprint = fingerprints.of_tensors(held) if self._execution.witnessed else fingerprints.none()
            logs = step(batches.with_tensors(batch, held))
            # A control edge from the call itself waits for all side effects of the step, not just for its results.
            with tf.control_dependencies([tensor.op for tensor in tf.nest.flatten(logs)]):
                released = hold.clear()
            with tf.control_dependencies(released):
                return tf.nest.map_structure(tf.identity, logs), fingerprint

        @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
        def multi_step_on_iterator(iterator: Any) -> Any:  # named as in Keras
            if self._execution.steps == 1:
                return held_step(iterator.get_next())
            return _several(held_step, iterator, self._execution)

        run = tf.function(multi_step_on_iterator, reduce_retracing=True)
        run.get_concrete_function(self._iterator_spec)
        if self._execution.steps == 1:
            return hold, run

        def counted(iterator: Any) -> Any:
            self.completed = int(self._execution.completed.numpy())
            return run(iterator)

        return hold, counted


def _several(held_step: Callable[[Any], Any], iterator: Any, execution: Execution) -> tuple[Any, Any]:
    """Run up to `steps` steps in a single call, as Keras does.

    Returns an Optional that contains the logs of the last step, and the fingerprint of the batches of all steps.
    """
    last = tf.experimental.Optional.empty(None)

    def goes_on(step: Any, logs: Any, batch: Any, seen: Any) -> Any:
        return tf.logical_and(step < execution.steps, batch.has_value())

    def body(step: Any, logs: Any, batch: Any, seen: Any) -> Any:
        logs, fingerprint = held_step(batch.get_value())
        with tf.control_dependencies(tf.nest.flatten(logs)):
            execution.completed.assign_add(1, read_value=False)
        packed = tf.experimental.Optional.from_value(logs)
        TENSORFLOW.element_spec.put(last, packed.element_spec)
        with tf.control_dependencies(tf.nest.flatten(logs)):  # a failed step must not consume the next batch
            more = tf.cond(step + 1 < execution.steps, iterator.get_next_as_optional, lambda: batch)
        return step + 1, packed, more, fingerprints.joined(seen, fingerprint) if execution.witnessed else seen

    first = iterator.get_next_as_optional()
    _, logs, _, seen = tf.while_loop(goes_on, body, [tf.constant(0), last, first, fingerprints.none()])
    TENSORFLOW.element_spec.put(logs, last.element_spec)  # known now that the body has been traced
    return logs, seen


def unpacked(outcome: Any) -> Any:
    """Unpack logs from the Optional returned by several steps. Raises StopIteration if there was no batch."""
    if not isinstance(outcome, tf.experimental.Optional):
        return outcome
    if not outcome.has_value():
        raise StopIteration
    return outcome.get_value()
