"""Runs the full batch in one compiled step, held so that a failure before its commit loses nothing.

XLA needs one more precaution. TensorFlow donates the buffer of every variable that a compiled step updates to XLA. If
the execution then runs out of memory, the buffer is freed although the variable still points to it, and the weights
silently become whatever is allocated there next (TensorFlow 2.21; `PopulateInputs` in
tensorflow/compiler/jit/xla_launch_util.cc; demonstrated in tests/end_to_end/test_tensorflow_itself.py). A buffer with a
second reference is not donated. The first step of a compiled form, which may not fit, therefore also holds its
variables. Later steps do not, and after an out-of-memory error in one of them, the run goes back to the checkpoint.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

import tensorflow as tf

from oomph import testing
from oomph.errors import UnsupportedError
from oomph.exact_step.commit import HOST, behind_barrier, held_bytes
from oomph.exact_step.micro_batch.micro_batch_step import EXCHANGES
from oomph.exact_step.step.execution import Execution, Form, unpacked
from oomph.exact_step.step.out_of_memory import COMMIT, END_OF_DATA, INPUT, Failed, attempt
from oomph.keras_bridge.batch import batches
from oomph.keras_bridge.batch.replicas import Replicas
from oomph.keras_bridge.dialects import dialect_of
from oomph.keras_bridge.graph import Slot, SmallState, handles_of, written_slots
from oomph.keras_bridge.models import calls_not_counted, on_one_replica, optimizer_variables_of, optimizers_of
from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW
from oomph.keras_bridge.random_ops import hidden_draws_in
from oomph.keras_bridge.runtime.allocator import DeviceMemory, run_out_of_memory
from oomph.keras_bridge.runtime.patching import while_tracing
from oomph.keras_bridge.stateful_random_ops import KeptRandomOps
from oomph.keras_bridge.workers import collectives_before
from oomph.protocol.reasons import Reason, because

_HELD = 0.5
"""The fraction of device memory, not counting weights and slots, that a step may hold back until it commits.

The rest leaves room for micro-batches, whose accumulated gradients need the same amount again.
"""

_PAYS_AFTER = 10
"""A lighter form is compiled once training has lasted this many times as long as the compilation takes."""


class FullBatchStep:
    """The user's step on full batches, with its commit behind a barrier.

    Args:
        model: a compiled Keras model.
        step: the model's `train_step`, or its `test_step`, which commits nothing.
        trains: whether `step` is a `train_step`.
        can_go_back: whether there are checkpoints. Without them, steps compiled by XLA always hold their variables.
        witnessed: whether to compute the fingerprints of the batches along with the steps.
    """

    def __init__(
        self,
        model: Any,
        step: Callable[[Any], Any],
        trains: bool = True,
        can_go_back: bool = True,
        witnessed: bool = False,
    ) -> None:
        self._model, self._step, self._trains = model, step, trains
        self._keras = dialect_of(model)
        self._replicas = Replicas(model.distribute_strategy)
        self.eagerly = bool(model.run_eagerly)
        self.pins = bool(model.jit_compile) and trains and not self.eagerly
        """True if XLA compiles the step, so that its first run must hold weights and slots."""
        self.can_go_back, self._witnessed = can_go_back, witnessed
        self.draws = KeptRandomOps()
        """The counts of the step's random operations, kept in variables; none under XLA or in eager mode."""
        self.fingerprint: Any = None
        """The fingerprint of the batches in the last execution of `run`."""
        self.commits = tf.Variable(0, dtype=tf.int64, trainable=False)
        """Counts the calls to `optimizer.apply`. Incremented before the first assignment of each call."""
        self.completed = tf.Variable(0, dtype=tf.int64, trainable=False)
        """Counts the completed steps in an execution of several steps."""
        self._committed = 0
        self._per_step: int | None = None
        self._counts: set[int | None] = set()
        """The number of commits per step in each trace, or None where it depends on computed values."""
        self._optimizers = 0
        """The number of optimizers when the step was last traced; the graph contains no others."""
        self._steps = 1
        """The number of steps in the last execution that completed."""
        self._forms: dict[str, Form] = {}
        self._latest: tuple[weakref.ref[Any], Form] | None = None
        """The latest iterator, with its form: describing an iterator takes as long as running a small step."""
        self._distributed: dict[str, tuple[Any, list[Slot]]] = {}
        """Maps each kind of distributed iterator to the spec of its batches and the state that the step writes.

        Python fetches these batches if a strategy spreads them over several devices of this process, since a staging
        area can only hold what is on one device.
        """
        self._states: dict[Any, SmallState] = {}
        self._traced: list[Any] = []
        self._hidden: list[str] | None = None
        self._proven: set[Any] = set()
        self._one = self._compiled_step()
        self._iterators: Any = tf.function(lambda iterator: None, reduce_retracing=True)
        """Traced for every kind of iterator, to relax the spec exactly as Keras' own function does."""

    def prepare(self, iterator: Any) -> None:
        """Trace the step once for this kind of iterator, so that every variable exists. Consumes no data."""
        if self.eagerly:
            with calls_not_counted(self._model):
                self._keras.build(self._model, batches.without_optionals(iterator.element_spec))
            return
        if self.fetches_from(iterator):
            return
        key, is_distributed = str(iterator.element_spec), isinstance(iterator, tf.distribute.DistributedIterator)
        if is_distributed and (not self._is_one_of_workers or self._steps_per_execution > 1):
            if key not in self._distributed:
                spec = batches.without_optionals(iterator.element_spec)
                self._distributed[key] = spec, self._traced_state(spec)
            return
        if key not in self._forms:
            self._forms[key] = self._form_of_worker(iterator) if is_distributed else self._form_of(iterator)
        self._latest = weakref.ref(iterator), self._forms[key]

    def fetches_from(self, iterator: Any) -> bool:
        """True if the step is prepared to take its batches from this iterator itself."""
        return self._latest is not None and self._latest[0]() is iterator

    def count_commits(self) -> None:
        """Record that an execution is complete, so that its commits are not mistaken for those of a failed step."""
        unknown = self._per_step is None or self.eagerly or len(self._counts) > 1 or None in self._counts
        if unknown or self._optimizers > 1 or self._steps_per_execution > 1:
            now = int(self.commits.numpy())
            self._per_step, self._committed = (now - self._committed) // max(1, self._steps), now
        else:
            self._committed += self._per_step or 0
        self._steps = 1

    def run(self, iterator: Any, take: Callable[[], Any] | None = None) -> Any:
        """Fetch one batch and train on it; return Keras' logs or Failed. Raises once the data is exhausted.

        Args:
            iterator: an iterator that the step `fetches_from`.
            take: takes the batch of a step that a test refuses.
        """
        assert self._latest is not None
        form, started = self._latest[1], time.monotonic()
        if self._is_refused(lambda: None):
            return self._refused(batches.without_optionals(next(iterator) if take is None else take()))
        try:
            outcome = attempt(partial(form.run, iterator), END_OF_DATA)
        except END_OF_DATA:
            self._give_back(form)
            raise
        except BaseException:
            form.hold.clear()
            raise
        if isinstance(outcome, Failed):
            self._give_back(form)
            return self._taken_back(form, outcome)
        if not form.proven:
            form.proven, form.lighter_at = True, self._lighter_at(time.monotonic() - started)
        if form.lighter_at is not None and time.monotonic() >= form.lighter_at:
            form.hold_less()
        if self._steps_per_execution > 1:
            self._steps = int(self.completed.numpy()) - form.completed
        logs, self.fingerprint = outcome
        return unpacked(logs)

    def _give_back(self, form: Form) -> None:
        """Continue with the numbers for which the other workers wait: this one has only taken part in the fetch."""
        if self._replicas.collectives is not None:
            self._replicas.collectives.give_back(form.numbers)

    def _lighter_at(self, seconds: float) -> float | None:
        """Return when, on the monotonic clock, a form may hold less and rely on checkpoints instead; None if never.

        Args:
            seconds: the duration of the form's first step, which is roughly the time needed to compile the lighter
                form.
        """
        if not self.can_go_back:
            return None
        if self.pins:
            return 0.0
        return None if self._is_limited() or not self.held_bytes else time.monotonic() + _PAYS_AFTER * seconds

    def run_held(self, batch: Any, pinned: bool = True) -> Any:
        """Train on a batch that Python holds; return Keras' logs or Failed.

        Args:
            batch: a nest of eager tensors or of arrays.
            pinned: False to run under XLA without holding the weights, at the risk of a failure in the commit phase.
        """
        if self._is_refused(lambda: batches.size_of(batch)):
            return self._refused(batch)
        state = self.state_of(batch)
        tensors = attempt(partial(batches.on_device, batch), batch=batch)
        if isinstance(tensors, Failed):
            return tensors
        key = batches.kind_of(batch, with_size=True)
        unsafe = self.pins and self.can_go_back and (key in self._proven or not pinned)
        pins = [] if unsafe or not self.pins else [slot.read() for slot in self.committed_slots()]
        before, collectives = state.snapshot(), self._replicas.collectives
        numbers = None if collectives is None else collectives.numbers()
        outcome = attempt(partial(self._one, tensors), batch=batch)
        del pins
        if not isinstance(outcome, Failed):
            self._proven.add(key)
            return outcome
        if unsafe or self.commit_has_begun():
            return replace(outcome, phase=COMMIT)
        state.restore(before)
        self._reset_new_metrics(state)
        if collectives is not None and numbers is not None:
            collectives.go_back(numbers)  # the other workers wait for them
        return outcome

    def _is_refused(self, samples: Callable[[], int | None]) -> bool:
        """True if a test has asked for the next step to run out of memory."""
        injector = testing.active() if self._trains else None
        return injector is not None and injector.refuses_full_batch(samples())

    def _refused(self, batch: Any) -> Failed:
        failed: Failed = attempt(run_out_of_memory, batch=batch)
        return failed

    def build_metrics(self, batch: Any) -> None:
        """Build an eager model's metrics before its first step does, since micro-batches need them earlier."""
        metrics = self._keras.compiled_metrics(self._model)
        if self.eagerly and not (metrics is None or metrics.built):
            with calls_not_counted(self._model):
                self._keras.build(self._model, batch)

    def _reset_new_metrics(self, state: SmallState) -> None:
        """Reset the metrics that an eager model's failed first step built, since they already count its batch."""
        known = {id(slot.handle) for slot in state.slots}
        for metric in self._model.metrics if self.eagerly else ():
            if any(id(slot.handle) not in known for slot in Slot.each_of(metric.variables)):
                metric.reset_state()

    def state_of(self, batch: Any) -> SmallState:
        """Return the step's small state for an eager batch, tracing the step if this kind of batch is new."""
        if self.eagerly:
            return SmallState(self._listed_state())  # not all metrics exist before the first step
        key = batches.kind_of(batch)
        if key not in self._states:
            self._states[key] = SmallState(self._traced_state(batches.specs_of(batch)))
        return self._states[key]

    def knows_size(self) -> bool:
        """True if Keras knows the size of every batch when it traces its step."""
        specs = [on_one_replica(form.spec) for form in self._forms.values()]
        specs += [batches.tensors_of(spec) for spec, _ in self._distributed.values()]
        if self.eagerly or not specs:
            return True
        return any(batches.length_is_known(spec) for spec in specs)

    def trace_sizes_apart(self) -> None:
        """Trace each batch size separately from now on, since the step's code may rely on a known size."""
        self._one = self._compiled_step(reduce_retracing=False)
        self._iterators = None

    @property
    def held_bytes(self) -> int | None:
        """The bytes that the step holds back until it commits: 0 if there is no room, None if unknown."""
        replicas = self._model.distribute_strategy.num_replicas_in_sync
        if self.eagerly or self.pins or replicas > 1 or not any(self._counts):
            return None
        return max(held_bytes(traced.graph) for traced in self._traced)

    def small_state(self) -> list[Slot]:
        """List the state that the step writes, apart from weights and slots, for every iterator kind traced so far."""
        written = [*(form.state for form in self._forms.values()), *(state for _, state in self._distributed.values())]
        draws = handles_of(self.draws.variables)
        return [slot for state in written for slot in state if id(slot.handle) not in draws]

    def hidden_state(self) -> list[Reason]:
        """Return a reason for each kind of random operation in the step that counts its draws inside the kernel."""
        if self._hidden is None:
            graphs = [traced.graph for traced in self._traced]
            self._hidden = sorted({kind for graph in graphs for kind in hidden_draws_in(graph)})
        where = "in the train step" if self._trains else "in the validation step"
        return [because("draws-of-kind", kind=kind, where=where) for kind in self._hidden]

    def _listed_state(self) -> list[Slot]:
        """Return the state that the model lists, since in eager mode there is no graph to show what the step writes."""
        model = self._model
        metrics, counters = self._keras.metrics_variables(model), self._keras.counters_of(model)
        return Slot.each_of([*model.non_trainable_variables, *metrics, *counters])

    def committed_slots(self) -> list[Slot]:
        """List the state that only a commit writes: weights, optimizer variables, and the commit counter."""
        return Slot.each_of(self._committed_variables())

    def commit_has_begun(self, done: int = 0) -> bool:
        """True if the failed step had started to assign. Do not call this after a failure under XLA without pins.

        Args:
            done: the number of steps that the same execution had already completed.
        """
        return int(self.commits.numpy()) != self._committed + done * (1 if self._per_step is None else self._per_step)

    def trained_slots(self) -> list[Slot]:
        """Return the weights and the optimizers' variables, without oomph's own counters."""
        return Slot.each_of(self._trained_variables())

    @property
    def trained_bytes(self) -> int:
        """The size in bytes of the weights and the optimizers' variables."""
        return sum(slot.nbytes for slot in self.trained_slots())

    def _trained_variables(self) -> list[Any]:
        return [*self._model.trainable_variables, *optimizer_variables_of(self._model)]

    def _committed_variables(self) -> list[Any]:
        return [*self._trained_variables(), self.commits, self.completed]

    @property
    def _steps_per_execution(self) -> int:
        return self._keras.steps_per_execution(self._model)

    def _is_limited(self) -> bool:
        """True if TensorFlow limits the memory used for training; on a CPU, it does so only on request."""
        return DeviceMemory.of_training_device().limit_bytes is not None

    def _room_bytes(self) -> int | None:
        """Return how many bytes of device memory the step may hold back, or None if no limit is known."""
        memory = DeviceMemory.of_training_device()
        if memory.limit_bytes is None:
            return None
        taken = max(self.trained_bytes, memory.in_use_bytes() or 0)  # slots may not be allocated yet
        return int(_HELD * (memory.limit_bytes - taken))

    def _compiled_step(self, reduce_retracing: bool = True) -> Any:
        """Return the step as a function of a batch, named as in Keras, since TensorFlow's errors show the name."""
        model, commits, step, keras = self._model, self.commits, self._step, self._keras
        replicas, here = self._replicas, threading.local()

        def own_step(data: Any) -> Any:
            here.steps = True  # in this thread, which runs one replica
            try:
                logs = step(batches.in_new_containers(data))
            finally:
                here.steps = None
            return logs if replicas.collectives is None else _after(commits, logs)

        @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
        def one_step_on_data(data: Any) -> Any:
            with ExitStack() as undo:
                for optimizer in optimizers_of(model):
                    apply = behind_barrier(optimizer, commits, bool(model.jit_compile), self._room_bytes)
                    original = keras.apply_of(optimizer)
                    held = while_tracing(original, lambda: getattr(here, "steps", None), _instead(apply))
                    undo.enter_context(keras.apply_replaced(optimizer, held))
                if not self.eagerly and not model.jit_compile:
                    undo.enter_context(self.draws.replaced())
                strategy = model.distribute_strategy
                return keras.reduced(strategy.run(own_step, args=(data,)), strategy)

        if self.eagerly:
            return one_step_on_data
        return tf.function(one_step_on_data, reduce_retracing=reduce_retracing, jit_compile=model.jit_compile)

    def _traced_state(self, spec: Any) -> list[Slot]:
        """Trace the step for batches of this kind, and return the small state that it writes.

        Raises UnsupportedError if the workers exchange values before the step commits: a worker that failed after that
        could not repeat the step.
        """
        collectives = self._replicas.collectives
        if collectives is None:
            return self._small_state(self._one.get_concrete_function(spec))
        with collectives.at_rest():
            concrete = self._one.get_concrete_function(spec)
            if collectives_before(concrete.graph, self.commits):
                raise UnsupportedError(EXCHANGES)
            return self._small_state(concrete)

    def _small_state(self, concrete: Any) -> list[Slot]:
        self._traced.append(concrete)
        self._optimizers = len(optimizers_of(self._model))
        self._counts.add(_count_of(self.commits, concrete.graph))
        self.draws.take(concrete)
        self._hidden = None
        return written_slots(concrete, self._committed_variables())

    def _form_of(self, iterator: Any) -> Form:
        iterator_spec = self._as_keras_traces(TENSORFLOW.iterator_spec.of(iterator))
        spec = batches.without_optionals(TENSORFLOW.element_spec.of(iterator_spec))
        state = self._small_state(self._one.get_concrete_function(spec))
        pinned = self.committed_slots() if self.pins else []
        execution = Execution(self._steps_per_execution, self.completed, self._witnessed)
        return Form(self._one, iterator_spec, spec, state, pinned, execution)

    @property
    def _is_one_of_workers(self) -> bool:
        """True if other processes train along, and this one is a single replica."""
        return self._replicas.collectives is not None and self._replicas.count == 1

    def _form_of_worker(self, iterator: Any) -> Form:
        assert self._replicas.collectives is not None
        spec = batches.without_optionals(iterator.element_spec)
        state, (device,) = self._traced_state(spec), self._model.distribute_strategy.extended.worker_devices
        if any(part.dtype == tf.string for part in batches.tensors_of(spec)):
            device = HOST  # a GPU holds no text
        execution = Execution(1, self.completed, self._witnessed, device)
        form = Form(self._one, TENSORFLOW.iterator_spec.of(iterator), spec, state, [], execution)
        form.numbers = self._replicas.collectives.taken_by(self._one.get_concrete_function(spec))
        return form

    def _as_keras_traces(self, spec: Any) -> Any:
        """Return the spec that Keras' own function would be traced for.

        A second batch size relaxes it to any size. TensorFlow's graph optimizer folds a known size into constants, so a
        step traced for that exact size would round differently.
        """
        if self._iterators is None:
            return spec
        ((relaxed,), _) = self._iterators.get_concrete_function(spec).structured_input_signature
        return relaxed

    def _taken_back(self, form: Form, outcome: Failed) -> Failed:
        batch, unsafe = form.batch_held(), not form.can_be_repaired
        done = 0 if unsafe or self._steps_per_execution == 1 else int(self.completed.numpy()) - form.completed
        failed = replace(outcome, batch=batch, done=done)
        if batch is None:
            failed = replace(failed, phase=INPUT)
        elif unsafe or self.commit_has_begun(done):
            failed = replace(failed, phase=COMMIT)
        else:
            form.hold.roll_back()
        form.hold.clear()
        return failed


def _after(commits: tf.Variable, logs: Any) -> Any:
    """Return the logs of a traced step, from when it commits: only then may the workers begin to average them."""
    with tf.control_dependencies([commits.read_value()]):
        return tf.nest.map_structure(lambda leaf: tf.identity(leaf) if tf.is_tensor(leaf) else leaf, logs)


def _instead(instead: Callable[..., Any]) -> Callable[..., Any]:
    return lambda _, original, *args, **kwargs: instead(*args, **kwargs)


def _count_of(commits: tf.Variable, graph: Any) -> int | None:
    """Return how often a traced step increments `commits`, or None if this happens in a branch or a loop."""
    inner = {id(inside) for outside, inside in graph.captures if outside is commits.handle}
    users = [op for op in graph.get_operations() if any(id(tensor) in inner for tensor in op.inputs)]
    if any(op.type not in ("AssignAddVariableOp", "ReadVariableOp") for op in users):
        return None
    return [op.type for op in users].count("AssignAddVariableOp")
