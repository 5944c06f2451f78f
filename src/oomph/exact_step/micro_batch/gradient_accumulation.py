"""Gradient accumulation: runs the user's step on each micro-batch and combines the results into those of one step."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import tensorflow as tf

from oomph import testing
from oomph.exact_step.commit import one_by_one
from oomph.exact_step.micro_batch.micro_batch_step import MicroBatchOutputs, MicroBatchStep, flat
from oomph.exact_step.micro_batch.sums import GradientSums, MergedMetrics, MovingStatistics
from oomph.keras_bridge.batch import batches
from oomph.keras_bridge.batch.batches import MicroBatchSlice
from oomph.keras_bridge.batch.replicas import cuts
from oomph.keras_bridge.dialects import dialect_of
from oomph.keras_bridge.graph import Slot, SmallState, compiled, inlined
from oomph.keras_bridge.runtime.allocator import run_out_of_memory


@dataclass(frozen=True)
class Kinds:
    """The kinds of loss terms and plain numbers: True for a sum over samples, False for a mean."""

    loss: bool
    terms: list[bool]
    values: list[bool]
    logs: list[bool]


class AccumulatedStep:
    """A divided step. Only accumulators and small state change before `commit`.

    Without XLA, each gradient of a micro-batch is added to its sum as soon as it exists. If XLA compiles the model, it
    compiles only the computation of the gradients, not their accumulation. When a step compiled by XLA runs out of
    memory, it loses the buffers of the variables that it writes (see `full_batch_step.py`), and the sums must survive.

    Args:
        model: a compiled Keras model.
        micro_step: the model's step on micro-batches.
        commits: the variable that counts commits, incremented before the first assignment, or None for steps that
            commit nothing.
    """

    def __init__(self, model: Any, micro_step: MicroBatchStep, commits: tf.Variable | None) -> None:
        self._model, self.micro_step, self._commits = model, micro_step, commits
        self._keras = dialect_of(model)
        self.trains = micro_step.trains
        self._replicas = micro_step.replicas
        self._sums = [GradientSums(replica) for replica in range(self._replicas.count)]
        self._metrics = MergedMetrics(model, micro_step)
        self._moving: MovingStatistics | None = None
        self._small: SmallState | None = None
        self._divisors: list[Any] = []
        self._own: list[Any] = []
        """The replicas' parts of the batch. `_sizes` contains their sample counts."""
        self._sizes: list[int] = []
        self._size = 0
        self.combine: str | None = None
        """The way to combine numbers in the logs, "mean" or "sum", or None to let the probe find out."""
        self.compiled = True
        """False to run micro-batches without XLA, since compiling for a probe is not worthwhile."""
        self.summed: list[float] = []
        """One entry for each loss term that is a plain number: 1 if the probe found a sum over samples, 0 otherwise."""
        self._add = _compiled(self._added, micro_step.eagerly)
        self._adds_at_once = self.trains and not micro_step.eagerly and self._replicas.count == 1
        self._at_once: tuple[Any, Any] | None = None
        """The traced micro-batch step, and the function that runs it and accumulates its gradients."""
        self._commit = _compiled(self._apply_sums, micro_step.eagerly, model.jit_compile)
        self._commit_with_others = compiled(self._apply_and_reduce)

    def extra_bytes(self) -> int:
        """Return the device memory, in bytes, that micro-batches need on top of their own steps.

        It consists of the sums, unless they already exist, and of a micro-batch's gradients if they are all computed
        before the first is added to its sum, as under XLA.
        """
        if not self.trains:
            return 0
        weights = sum(Slot.of(variable).nbytes for variable in self._model.trainable_variables)
        together = not self._adds_at_once or bool(self._model.jit_compile)
        return weights * (together + (not self._sums[0].exist))

    def start(self, batch: Any, size: int, small: SmallState) -> None:
        """Accept a batch before its first micro-batch.

        Args:
            size: the number of samples on the busiest replica.
            small: the state that the step writes, apart from weights.
        """
        self.micro_step.trace(batch, small)
        if self._small is not small:
            self._small = small
            self._moving = MovingStatistics(self._model, small.slots, self._keras.metrics_variables(self._model))
        for sums in self._sums:
            if self.trains and self.micro_step.applied is not None:
                sums.make(self.micro_step.applied.gradients, self._variables)
                sums.pieces = self.micro_step.pieces
            sums.clear()
        self._metrics.start()
        self._state.start()
        self._own, self._size = self._replicas.local(batch), size
        self._sizes = [batches.size_of(own) or 0 for own in self._own]
        self._divisors = self.micro_step.divisors_of(self._own)
        self.summed += [0.0] * (len(self.micro_step.losses.terms) - len(self.summed))

    def add(self, start: int, samples: int, scale: float = 1.0) -> None:
        """Run the step on `samples` samples, starting at `start`, and on the same fraction of any smaller replica.

        Args:
            start: the index of the first sample.
            samples: the number of samples.
            scale: a factor by which to multiply each mean in the loss.
        """
        injector = testing.active() if self.trains else None
        if injector is not None and injector.refuses_micro_batch(samples, self._size):
            run_out_of_memory()
        self._state.before_micro_batch()
        assert self._small is not None
        held = self._small.snapshot()  # a second reference keeps XLA from reusing these buffers for its outputs
        outputs, sparse = self._added_up(*self._parts(start, samples, scale))
        del held
        self._state.after_micro_batch(samples / self._size)
        for sums, slices, own in zip(self._sums, sparse, outputs, strict=True):
            sums.keep(slices, own.sizes)
        self._metrics.keep(outputs, [stop - first for first, stop in cuts(self._sizes, start, samples)])

    def finish(self, size_is_known: bool) -> list[Any]:
        """Set state and metrics to the values that the full batch would have produced; return each replica's logs."""
        self._state.finish()
        logs: list[Any] = self._metrics.finish(size_is_known)
        return logs

    def commit(self, logs: list[Any]) -> Any:
        """Apply the summed gradients, once, if the step trains; return Keras' logs.

        Args:
            logs: each replica's logs.
        """
        if self._replicas.collectives is not None:
            return self._commit_with_others([sums.sparse() for sums in self._sums], logs)
        if self.trains:
            self._commit([sums.sparse() for sums in self._sums])
        return self._keras.reduced(self._replicas.together(logs), self._model.distribute_strategy)

    def let_go(self) -> None:
        """Release the batch."""
        self._own, self._divisors = [], []

    def outputs(self, start: int, samples: int) -> list[MicroBatchOutputs]:
        """Return each replica's outputs for these samples alone.

        This changes the state but adds nothing to the sums.
        """
        return self.micro_step(*self._parts(start, samples), self.compiled)

    def settle(self, terms: list[bool], values: list[bool], logs: list[bool]) -> None:
        """Set which loss terms, metric values and log entries are sums over samples."""
        self.summed = [float(is_sum) for is_sum in terms]
        if self.combine is not None:
            logs = [self.combine == "sum"] * len(self.micro_step.sources)
        self._metrics.summed = {"values": values, "logs": logs}

    def kinds(self) -> Kinds:
        """Return the settled kinds."""
        return Kinds(self.micro_step.summed, [bool(is_sum) for is_sum in self.summed], *self._metrics.kinds())

    def settle_as(self, kinds: Kinds) -> None:
        """Adopt kinds that were settled earlier or for a different division of the same step."""
        self.settle(kinds.terms, kinds.values, kinds.logs)
        if self.micro_step.summed != kinds.loss:
            self.micro_step.take_for(kinds.loss)

    def gradients(self) -> list[Any]:
        """Return each replica's current sums, in the order of the variables; None where there is no gradient."""
        return [gradient for sums in self._sums for gradient in sums.gradients(sums.sparse())]

    @property
    def _state(self) -> MovingStatistics:
        assert self._moving is not None
        return self._moving

    @property
    def _variables(self) -> list[Any]:
        applied = self.micro_step.applied
        return [] if applied is None else [v for call in applied.variables for v in call]

    def _parts(self, start: int, samples: int, scale: float = 1.0) -> tuple[list[Any], list[MicroBatchSlice]]:
        """Cut the micro-batch with these samples out of each replica's batch; return the parts and their frames."""
        places = cuts(self._sizes, start, samples)
        parts = [batches.part_of(own, *place) for own, place in zip(self._own, places, strict=True)]
        frames = [
            MicroBatchSlice.of(first, stop - first, size, divisors, self.summed)
            for (first, stop), size, divisors in zip(places, self._sizes, self._divisors, strict=True)
        ]
        return parts, [frame._replace(share=frame.share * scale) for frame in frames] if scale != 1.0 else frames

    def _added_up(self, parts: list[Any], frames: list[MicroBatchSlice]) -> tuple[list[MicroBatchOutputs], list[Any]]:
        """Run a micro-batch and accumulate its dense gradients; return its other outputs and its sparse gradients."""
        if self._adds_at_once and not (self.compiled and self._model.jit_compile):
            if self._at_once is None or self._at_once[0] is not self.micro_step.traced:
                self._at_once = self.micro_step.traced, self._run_and_add(self.micro_step.traced)
            return self._at_once[1](*flat(parts, frames))  # type: ignore[no-any-return]
        outputs = self.micro_step(parts, frames, self.compiled)
        for sums, own in zip(self._sums, outputs, strict=True):
            sums.make(own.gradients, self._variables)
        return outputs, self._add([own.gradients for own in outputs])

    def _run_and_add(self, traced: Any) -> Any:
        """Return a function that runs a micro-batch and adds each gradient to its sum as soon as it is computed.

        The gradients are therefore never all in memory at once.
        """
        run = inlined(traced)

        def run_and_add(*tensors: Any) -> tuple[list[MicroBatchOutputs], list[Any]]:
            outputs = run(*tensors)
            return [own._replace(gradients=[]) for own in outputs], self._added([own.gradients for own in outputs])

        count = len(traced.inputs) - len(traced.captured_inputs)
        signature = [tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in traced.inputs[:count]]
        return tf.function(run_and_add, input_signature=signature, autograph=False)

    def _added(self, gradients: list[Any]) -> list[Any]:
        return [sums.add(own) for sums, own in zip(self._sums, gradients, strict=True)]

    def _apply_sums(self, sparse: list[Any]) -> None:
        applied = self.micro_step.applied
        assert applied is not None
        assert self._commits is not None
        started = self._commits.assign_add(len(applied.optimizers), read_value=False)
        after = [] if tf.executing_eagerly() else [started]
        with tf.control_dependencies(after):
            gradients = [sums.gradients(slices) for sums, slices in zip(self._sums, sparse, strict=True)]
        self._replicas.run(partial(self._apply, after), gradients)

    def _apply_and_reduce(self, sparse: list[Any], logs: list[Any]) -> Any:
        """Exchange with the other workers what their steps on full batches exchange, in the same order."""
        self._apply_sums(sparse)
        return self._keras.reduced(self._replicas.together(logs), self._model.distribute_strategy)

    def _apply(self, after: list[Any], gradients: list[Any]) -> None:
        """Apply one replica's summed gradients on its own device, as Keras' step would."""
        applied = self.micro_step.applied
        assert applied is not None
        with tf.control_dependencies(after):
            remaining = iter([None if g is None else _identity(g) for g in gradients])
            for optimizer, variables in zip(applied.optimizers, applied.variables, strict=True):
                apply = partial(self._keras.apply_of(optimizer), [next(remaining) for _ in variables], variables)
                if self._replicas.is_alone and not tf.executing_eagerly():
                    one_by_one(apply)
                else:
                    apply()
        self.micro_step.assignments.make()


def _identity(gradient: Any) -> Any:
    return tf.nest.map_structure(tf.identity, gradient, expand_composites=True)


def _compiled(function: Any, eagerly: bool, jit_compile: Any = None) -> Any:
    return function if eagerly else compiled(function, jit_compile)
