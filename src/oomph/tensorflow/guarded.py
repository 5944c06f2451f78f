"""The exact step: one training step of a Keras model that can run out of memory without losing anything.

A step is computed first and committed last: all gradients exist before anything is assigned, the batch and the small
state (metrics, moving statistics, random seeds) are held until the commit is over. A step that fails before its commit is
rolled back and the same batch is taken again as micro-batches, whose gradients are weighted so that their sum is the
gradient of the whole batch; one commit applies it. A step that fails within its commit can not be repaired here: it
goes back to the last checkpoint.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import tensorflow as tf

from oomph.recovery.sizing import Sizing
from oomph.tensorflow import batches
from oomph.tensorflow.barrier import apply_replaced_by, behind_barrier
from oomph.tensorflow.divided import DividedStep
from oomph.tensorflow.errors import as_out_of_memory
from oomph.tensorflow.memory import DeviceMemory
from oomph.tensorflow.staging import Hold
from oomph.tensorflow.step import Failure, Recovery, StepWatch
from oomph.tensorflow.written import Slot, SmallState, tensorflow_variable, written_slots

_END_OF_DATA = (StopIteration, tf.errors.OutOfRangeError)


class GuardedStep:
    """The exact step of one model, for one compilation of it."""

    def __init__(self, model: Any, plain: Callable[[Any], Any], watch: Callable[[], StepWatch]) -> None:
        self._model, self._plain, self._watch = model, plain, watch
        self._commits = tf.Variable(0, dtype=tf.int64, trainable=False)
        self._committed = 0
        self._one = self._compiled(self._barrier_step)
        self._forms: dict[Any, _Form] = {}
        self._states: dict[Any, SmallState] = {}
        self._divided: DividedStep | None = None
        self._broken = False
        self.sizing = Sizing()

    def __call__(self, iterator: Any) -> Any:
        self.prepare(iterator)
        watch = self._watch()
        watch.before_step(self, iterator)
        if self._broken:
            logs = self._plain(iterator)
        elif not isinstance(iterator, tf.data.Iterator):
            logs = self._run_held(_next_of_python(iterator), watch)
        elif self.sizing.failed is None and self.sizing.chosen is None:
            logs = self._run_whole(self._forms[_key(iterator)], iterator, watch)
        else:
            logs = self._run_divided(batches.without_optionals(next(iterator)), watch)
        self._committed += 1
        watch.after_step()
        return logs

    def prepare(self, iterator: Any) -> None:
        """Trace the step for this kind of iterator, once; a guard that can not be built steps aside for good."""
        if self._broken or not isinstance(iterator, tf.data.Iterator) or _key(iterator) in self._forms:
            return
        try:
            self._forms[_key(iterator)] = _Form(self, iterator)
        except Exception as error:
            self._step_aside(error)

    def extra_state(self) -> list[Slot]:
        """Variables that the step writes and that neither the model nor its optimizer lists."""
        return [slot for form in self._forms.values() for slot in form.state]

    # -- the whole batch at once ----------------------------------------------------------------------------------

    def _barrier_step(self, batch: Any) -> Any:
        with apply_replaced_by(self._model.optimizer, behind_barrier(self._model.optimizer, self._commits)):
            return self._model.distribute_strategy.run(self._model.train_step, args=(batch,))

    def _run_whole(self, form: _Form, iterator: Any, watch: StepWatch) -> Any:
        started = time.monotonic()
        try:
            return form.run(iterator)
        except _END_OF_DATA:
            raise
        except Exception as error:
            oom = as_out_of_memory(error)
            if oom is None:
                form.hold.clear()
                raise
            caught = error
        except BaseException:
            form.hold.clear()
            raise
        # Outside the except block, so that the failed step's tensors are not kept alive by its traceback.
        traceback.clear_frames(caught.__traceback__)
        batch = form.batch_held()
        size = None if batch is None else batches.size_of(batch)
        failure = Failure(oom, caught, self._phase(batch), size, size, time.monotonic() - started)
        if failure.phase == "compute":
            form.hold.roll_back()
        form.hold.clear()
        return self._recover(batch, failure, watch)

    def _run_held(self, batch: Any, watch: StepWatch) -> Any:
        """A batch that Python holds already: `train_on_batch` and Keras' branch for Python iterators."""
        if self.sizing.failed is not None or self.sizing.chosen is not None:
            return self._run_divided(batch, watch)
        started = time.monotonic()
        try:
            state = self._state_of(batch)
        except Exception as error:
            self._step_aside(error)
            return self._plain(iter([batch]))
        before = state.snapshot()
        try:
            return self._one(batch)
        except Exception as error:
            oom = as_out_of_memory(error)
            if oom is None:
                raise
            caught = error
        traceback.clear_frames(caught.__traceback__)
        size = batches.size_of(batch)
        failure = Failure(oom, caught, self._phase(batch), size, size, time.monotonic() - started)
        if failure.phase == "compute":
            state.restore(before)
        return self._recover(batch, failure, watch)

    # -- after a failure ------------------------------------------------------------------------------------------

    def _phase(self, batch: Any) -> str:
        if batch is None:
            return "input"
        return "compute" if int(self._commits.numpy()) == self._committed else "commit"

    def _recover(self, batch: Any, failure: Failure, watch: StepWatch) -> Any:
        watch.failed(failure)
        if failure.phase != "compute":
            watch.not_recoverable(failure, f"out of memory in the {failure.phase} phase")
        if failure.batch is None:
            watch.not_recoverable(failure, "the parts of the batch do not share one number of samples")
        self._learn(failure)
        return self._run_divided(batch, watch, failure)

    def _learn(self, failure: Failure) -> None:
        memory = DeviceMemory.of_training_device()
        peak = memory.peak_bytes()
        limit = memory.limit_bytes
        requested = failure.oom.requested_bytes
        if peak and (limit is None or (requested and not failure.oom.whole_step and peak + requested < limit)):
            limit = peak  # somebody else holds the rest, or it is in pieces too small: count on what was in use once
        base = memory.in_use_bytes() or 0
        assert failure.micro_batch is not None
        need = None
        if failure.oom.whole_step and requested:
            # What XLA names is its last, largest piece: outputs and autotuning had taken the rest up to the peak.
            need = requested + max(0, (peak or 0) - base)
            base += self._accumulator_bytes()  # micro-batches also need these
        known = replace(self.sizing, limit_bytes=limit, base_bytes=base, can_measure=peak is not None)
        self.sizing = known.after_failure(failure.micro_batch, need)

    def _accumulator_bytes(self) -> int:
        variables = [tensorflow_variable(v) for v in self._model.trainable_variables]
        return sum(v.dtype.size * (v.shape.num_elements() or 0) for v in variables)

    # -- in micro-batches -----------------------------------------------------------------------------------------

    def _run_divided(self, batch: Any, watch: StepWatch, failure: Failure | None = None) -> Any:
        started = time.monotonic() - (failure.seconds if failure else 0.0)
        size = batches.size_of(batch)
        if size is None:
            self._step_aside(ValueError("the parts of the batch do not share one number of samples"))
            return self._plain(iter([batch]))
        ooms = 1 if failure else 0
        while True:
            if self.sizing.next_size(size) is None and failure is not None:
                watch.not_recoverable(failure, "one sample does not fit")
            outcome = self._try_divided(batch, size)
            if not isinstance(outcome, Failure):
                break
            failure, ooms = outcome, ooms + 1
            watch.failed(failure)
            if failure.phase != "compute":
                watch.not_recoverable(failure, f"out of memory in the {failure.phase} phase")
            self._learn(failure)
        if self.sizing.chosen is None:
            self.sizing = self.sizing.settled(size)
        if ooms:
            watch.recovered(Recovery(size, self.sizing.chosen or 1, ooms, time.monotonic() - started))
        return outcome

    def _try_divided(self, batch: Any, size: int) -> Any:
        divided = self._divided = self._divided or DividedStep(self._model, self._commits)
        state = self._state_of(batch)
        before = state.snapshot()
        divided.start()
        started, done, part = time.monotonic(), 0, size
        try:
            while done < size:
                part = min(self.sizing.next_size(size) or 1, size - done)
                with self._measured(part):
                    logs = divided.add(batches.part_of(batch, done, done + part), part / size)
                done += part
            divided.commit()
            return logs
        except Exception as error:
            oom = as_out_of_memory(error)
            if oom is None:
                raise
            caught = error
        traceback.clear_frames(caught.__traceback__)
        phase = self._phase(batch)
        if phase == "compute":
            state.restore(before)
        return Failure(oom, caught, phase, size, part, time.monotonic() - started)

    @contextmanager
    def _measured(self, part: int) -> Iterator[None]:
        if not self.sizing.wants_measurement:
            yield
            return
        memory = DeviceMemory.of_training_device()
        memory.reset_peak()
        yield
        peak = memory.peak_bytes()
        if peak is None:
            self.sizing = replace(self.sizing, can_measure=False)
        else:
            self.sizing = self.sizing.after_measuring(part, peak)

    # -- building blocks ------------------------------------------------------------------------------------------

    def _compiled(self, function: Callable[..., Any]) -> Any:
        untouched = tf.autograph.experimental.do_not_convert(function)
        return tf.function(untouched, reduce_retracing=True, jit_compile=self._model.jit_compile)

    def _state_of(self, batch: Any) -> SmallState:
        """The small state of the step for an eager batch, traced if this kind of batch is new."""
        key = str(tf.nest.map_structure(_relaxed_spec, batch))
        if key not in self._states:
            concrete = self._one.get_concrete_function(batch)
            self._states[key] = SmallState(self.small_state(concrete))
        return self._states[key]

    def small_state(self, concrete: Any) -> list[Slot]:
        """The variables that a traced step writes before its commit."""
        model = self._model
        committed = [*model.trainable_variables, *model.optimizer.variables, self._commits]
        return written_slots(concrete, besides=committed)

    def _step_aside(self, error: BaseException) -> None:
        self._broken = True
        self._watch().guard_broken(error)


class _Form:
    """The guarded step compiled for one kind of tf.data iterator."""

    def __init__(self, owner: GuardedStep, iterator: Any) -> None:
        spec = batches.without_optionals(iterator.element_spec)
        self._spec = spec
        self.state = owner.small_state(owner._one.get_concrete_function(spec))
        self.hold = Hold([leaf.dtype for leaf in batches.tensors_of(spec)], self.state)
        one = owner._one
        hold = self.hold

        @tf.autograph.experimental.do_not_convert
        def whole(iterator: Any) -> Any:
            batch = batches.without_optionals(iterator.get_next())
            held = hold.put(batches.tensors_of(batch))
            logs = one(batches.with_tensors(batch, held))
            # A control edge from the call itself waits for everything the step does, not only for its results.
            with tf.control_dependencies([tensor.op for tensor in tf.nest.flatten(logs)]):
                released = hold.clear()
            with tf.control_dependencies(released):
                return tf.nest.map_structure(tf.identity, logs)

        self.run = tf.function(whole, reduce_retracing=True)
        self.run.get_concrete_function(iterator)

    def batch_held(self) -> Any:
        """The batch of the failed step, or None when the step failed before it had one."""
        tensors = self.hold.take_batch()
        return None if tensors is None else batches.with_tensors(self._spec, tensors)


def _key(iterator: Any) -> str:
    return str(iterator.element_spec)


def _relaxed_spec(part: Any) -> Any:
    """The kind of a tensor without its batch size: what the step writes does not depend on that."""
    if part is None:
        return None
    return (type(part).__name__, part.dtype.name, tuple(part.shape)[1:])


def _next_of_python(iterator: Any) -> Any:
    """The next batch of a Python iterator as tensors."""
    return tf.nest.map_structure(lambda part: None if part is None else tf.convert_to_tensor(part), next(iterator))
