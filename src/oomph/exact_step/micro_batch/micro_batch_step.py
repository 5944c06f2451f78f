"""MicroBatchStep: the user's own step, traced for one micro-batch so that it assigns only small state.

The step is not rewritten. While it is traced, some of the Keras functions that it calls are replaced: `optimizer.apply`
returns the gradients instead of applying them, losses are reduced for a micro-batch, and some metrics return their
updates (`interception.py`). Random numbers are the micro-batch's rows of the full batch's random numbers
(`random_ops.py`).
"""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, redirect_stdout
from dataclasses import dataclass
from typing import Any, NamedTuple

import tensorflow as tf

from oomph.errors import UnsupportedError
from oomph.exact_step.micro_batch.after_update import BY_ITSELF, AfterUpdate, Assignments
from oomph.exact_step.micro_batch.interception import GradientCapture, Handed, MicroBatchLosses, MicroBatchMetrics
from oomph.keras_bridge.batch import batches
from oomph.keras_bridge.batch.batches import MicroBatchSlice
from oomph.keras_bridge.batch.replicas import Replicas
from oomph.keras_bridge.batch.sparse_slices import Piece, TracedSlices
from oomph.keras_bridge.dialects import dialect_of
from oomph.keras_bridge.graph import SmallState, handles_of, written_slots
from oomph.keras_bridge.models import optimizer_variables_of, optimizers_of
from oomph.keras_bridge.random_ops import SlicedRandomOps, draws_from_hidden_state
from oomph.keras_bridge.stateful_random_ops import KeptRandomOps, SharedDraws
from oomph.keras_bridge.workers import collectives_in
from oomph.terminal.wrapping import shortened

EXCHANGES = "the workers exchange values within the step, not only at its end"
_LOOPS = ("While", "StatelessWhile")
_HEADINGS = (
    "Graph execution error",
    "Detected at node",
    "Arguments received by",
    "Exception encountered",
    "File ",
    "•",
)


class MicroBatchOutputs(NamedTuple):
    """The outputs of one micro-batch. Every field is a nest of tensors."""

    logs: list[Any]
    """The leaves of the nest returned by the user's step."""
    gradients: list[list[Any]]
    """The gradients of each optimizer call, multiplied by the micro-batch's share."""
    sizes: dict[str, Any]
    """The sizes of the pieces of each sparse gradient that has several, keyed by number, as int64 [pieces]."""
    divisors: list[Any]
    terms: list[Any]
    values: list[Any]
    """The numbers to update metrics with. `weights` contains their weights."""
    weights: list[Any]
    arguments: list[Any]
    """The arguments to update foreign metrics with."""


@dataclass(frozen=True)
class _Traced:
    """Stand-ins for parts of Keras while the step is traced for one replica's micro-batch."""

    losses: MicroBatchLosses
    metrics: MicroBatchMetrics
    applied: GradientCapture
    draws: SlicedRandomOps
    shared: SharedDraws
    after: AfterUpdate


class MicroBatchStep:
    """A model's step on micro-batches of any size, in every replica of the model's strategy.

    Args:
        model: a compiled Keras model.
        step: the model's `train_step`, or its `test_step`, which applies no optimizer.
        trains: whether the step must apply an optimizer.
        kept: the counts of the full step's random operations, or None if the step draws from its kernels.
    """

    def __init__(
        self, model: Any, step: Callable[[Any], Any], trains: bool = True, kept: KeptRandomOps | None = None
    ) -> None:
        self._model, self.trains, self._keras = model, trains, dialect_of(model)
        self.replicas = Replicas(model.distribute_strategy)
        self._step = python_of(step)
        self.eagerly = bool(model.run_eagerly)
        self.reason = ""
        """The reason in the traced graph against replacing the batch by micro-batches; empty if there is none."""
        self.applied: GradientCapture | None = None
        self._after = AfterUpdate()
        self._defers = trains and not self.eagerly and self.replicas.is_alone
        """True if assignments after the update are left to the commit."""
        self.assignments = Assignments()
        """The assignments that the commit makes after the update."""
        self.losses = MicroBatchLosses(None)
        self.metrics = MicroBatchMetrics(model)
        self.structure: Any = None
        """The nest returned by the step."""
        self.sources: list[Any] = []
        """The metric of which each leaf of `structure` is the result, or None."""
        self.batched_logs: list[bool] = []
        """True for each leaf that has one entry per sample. The next two attributes say the same of metric inputs."""
        self.batched_values: list[bool] = []
        self.pieces: dict[int, tuple[Piece, ...]] = {}
        """The pieces of each sparse gradient, keyed by the gradient's number."""
        self.batched_arguments: Any = []
        self._draws: list[bool] = []
        self.kept = kept
        self._counts: list[Any] = []
        """The counts of the random operations in the full step's trace for these batches."""
        self.draws_from_hidden_state = self.has_loops = False
        self.summed = False
        """True if the step trains on a sum over samples (see `take_for`)."""
        self._spec: Any = None
        self._layout = ""
        self._plain: Any = None
        self._jitted: Any = None
        self._divisors: Any = None

    def trace(self, batch: Any, small: SmallState | None = None) -> None:
        """Trace the step for micro-batches of batches like this one. Raises UnsupportedError if that is impossible.

        An eager step is traced as well, to find out what it does, but it still runs eagerly.

        Args:
            small: the state that the full step writes for such batches, apart from weights.
        """
        counts = [] if self.kept is None or small is None else self.kept.within(small.slots)
        spec, layout = self._spec, batches.layout_of(self.replicas.local(batch)[0])
        if layout != self._layout:
            spec, self._layout = None, layout
        for own in self.replicas.local(batch):
            spec = batches.general_spec(spec, own)
        if spec == self._spec and list(map(id, counts)) == list(map(id, self._counts)):
            return
        self._spec, self._divisors, self._counts = spec, None, counts
        signature = [*batches.tensors_of(spec), *MicroBatchSlice.specs()] * self.replicas.count
        concrete = self._traced_for(signature)
        reason = self._reason_in(concrete)
        if reason and self._after.values:  # made in every micro-batch, these assignments may still work as small state
            self._defers = False
            concrete = self._traced_for(signature)
            reason = reason if self._reason_in(concrete) else ""
        self.draws_from_hidden_state = draws_from_hidden_state(concrete.graph)
        self.has_loops = any(operation.type in _LOOPS for operation in concrete.graph.get_operations())
        self.reason = self.reason or reason
        self.assignments = self._after.assignments(concrete)

    def _traced_for(self, signature: list[Any]) -> Any:
        untouched = tf.autograph.experimental.do_not_convert(self._run_flat)
        self._plain = tf.function(untouched, input_signature=signature)
        try:
            silent = redirect_stdout(io.StringIO()) if self.eagerly else nullcontext()
            with silent, self._keras.traced_again(self._model):
                concrete = self._plain.get_concrete_function()
        except Exception as error:
            raise UnsupportedError(f"the step cannot be traced for micro-batches ({essence(error)})") from error
        self._jitted = self._plain
        if self._model.jit_compile and not self.eagerly:
            self._jitted = tf.function(untouched, input_signature=signature, jit_compile=True)
        return concrete

    def take_for(self, summed: bool) -> None:
        """Treat the step's loss as a sum or as a mean over samples. The step must then be traced again."""
        self.summed, self._spec, self.reason = summed, None, ""

    def __call__(
        self, parts: list[Any], frames: list[MicroBatchSlice], compiled: bool = True
    ) -> list[MicroBatchOutputs]:
        """Run the step on one micro-batch in each replica, without XLA if `compiled` is False."""
        if self.eagerly:
            outputs = self._run(parts, frames)
            self._forget()
            return outputs
        function = self._jitted if compiled else self._plain
        traced: list[MicroBatchOutputs] = function(*flat(parts, frames))
        return traced

    @property
    def traced(self) -> Any:
        """The concrete function that accepts the tensors from `flat`, without XLA; a new trace replaces it."""
        return self._plain.get_concrete_function()

    def divisors_of(self, wholes: list[Any]) -> list[Any]:
        """Compute the divisors of each replica's full batch, running only the part of the step that they depend on.

        Returns:
            For each replica, its divisors as float64 [K].
        """
        if not self.losses.divisors:
            return [()] * self.replicas.count
        if self._divisors is None:
            self._divisors = self._only_divisors()
        values = [float(value) for value in self._divisors(*[t for own in wholes for t in batches.tensors_of(own)])]
        return [list(own) for own in _in_equal_parts(values, self.replicas.count)]

    def _forget(self) -> None:
        """Release the tensors of a micro-batch that ran eagerly."""
        assert self.applied is not None
        self.applied.gradients, self.metrics.handed = [], Handed()

    def _run_flat(self, *tensors: Any) -> list[MicroBatchOutputs]:
        own = [list(part) for part in _in_equal_parts(tensors, self.replicas.count)]
        count = len(own[0]) - len(MicroBatchSlice._fields)
        parts = [batches.with_tensors(self._spec, each[:count]) for each in own]
        return self._run(parts, [MicroBatchSlice(*each[count:]) for each in own])

    def _run(self, parts: list[Any], frames: list[MicroBatchSlice], correct: bool = True) -> list[MicroBatchOutputs]:
        here = threading.local()  # a strategy traces each replica in a separate thread and switches between them

        def on_replica(part: Any, frame: MicroBatchSlice) -> MicroBatchOutputs:
            rows = SlicedRandomOps(frame, batches.length_of(part), self._draws, bool(self._model.jit_compile))
            here.traced = _Traced(
                MicroBatchLosses(frame if correct else None, self.eagerly, self._keras),
                MicroBatchMetrics(self._model),
                GradientCapture(frame, self.summed),
                rows,
                SharedDraws(self._counts, rows),
                AfterUpdate(),
            )
            logs = self._step(batches.in_new_containers(part))
            slices = {} if tf.executing_eagerly() else _slices_in(here.traced, [*batches.tensors_of(part), *frame])
            self._note(here.traced, logs)
            self.pieces = {number: traced.pieces for number, traced in slices.items()} or self.pieces
            return _outputs(here.traced, logs, slices)

        with self._replaced(lambda: getattr(here, "traced", None)):
            return self.replicas.run(on_replica, parts, frames)

    @contextmanager
    def _replaced(self, traced: Callable[[], _Traced | None]) -> Iterator[None]:
        """Within the block, make Keras work on micro-batches in threads that trace them, and as usual in the others."""

        def each(name: str) -> Callable[[], Any]:
            return lambda: getattr(traced(), name, None)

        with ExitStack() as undo:
            undo.enter_context(MicroBatchLosses.replaced(each("losses"), self._keras))
            undo.enter_context(MicroBatchMetrics.replaced(self._model, each("metrics")))
            undo.enter_context(GradientCapture.replaced(optimizers_of(self._model), each("applied")))
            undo.enter_context(SlicedRandomOps.replaced(each("draws")))
            undo.enter_context(SharedDraws.replaced(each("shared")))
            if self._defers:
                undo.enter_context(AfterUpdate.replaced(self._weights(), lambda: _after_update(traced())))
            yield

    def _note(self, traced: _Traced, logs: Any) -> None:
        """Record what a replica's trace shows. The last one's applies to all: it comes after the others."""
        self.losses, self.metrics, self.applied = traced.losses, traced.metrics, traced.applied
        self._after = traced.after
        leaves, handed = tf.nest.flatten(logs), traced.metrics.handed
        self.structure, self.sources = logs, [self.metrics.source_of(leaf) for leaf in leaves]
        if not tf.executing_eagerly():
            self.batched_logs = [_goes_with_batch(leaf) for leaf in leaves]
            self.batched_values = [_goes_with_batch(value) for value in handed.values]
            self.batched_arguments = tf.nest.map_structure(_goes_with_batch, handed.arguments)
        if self.trains:
            self.reason = self.reason or self.applied.reason()

    def _only_divisors(self) -> Any:
        def run(*tensors: Any) -> list[Any]:
            parts = _in_equal_parts(tensors, self.replicas.count)
            wholes = [batches.with_tensors(self._spec, list(part)) for part in parts]
            frames = [MicroBatchSlice.of(0, 1, 1)._replace(whole=batches.length_of(whole)) for whole in wholes]
            return [d for outputs in self._run(wholes, frames, correct=False) for d in outputs.divisors]

        kept = (self.losses, self.metrics, self.applied, self._after, self.structure, self.sources)
        signature = batches.tensors_of(self._spec) * self.replicas.count
        with self._keras.traced_again(self._model):
            wrapped = tf.compat.v1.wrap_function(run, signature)
        self.losses, self.metrics, self.applied, self._after, self.structure, self.sources = kept
        return wrapped.prune(wrapped.inputs[: len(signature)], list(wrapped.structured_outputs))

    def _reason_in(self, concrete: Any) -> str:
        """Return why, according to the graph, micro-batches cannot replace the batch; empty if nothing prevents it."""
        if self.replicas.collectives is not None and collectives_in(concrete.graph):
            return EXCHANGES
        if not self.trains or self.applied is None:
            return ""
        weights = [*optimizer_variables_of(self._model), *self._model.trainable_variables]
        if len(written_slots(concrete, [])) != len(written_slots(concrete, weights)):
            return BY_ITSELF
        return self._after.reason(concrete.graph, self.applied.before, handles_of(self._model.trainable_variables))

    def _weights(self) -> list[Any]:
        return list(getattr(self._model, "weights", self._model.trainable_variables))


def flat(parts: list[Any], frames: list[MicroBatchSlice]) -> list[Any]:
    """Return the arguments of a traced micro-batch: the tensors of each replica's batch and frame."""
    return [t for part, frame in zip(parts, frames, strict=True) for t in (*batches.tensors_of(part), *frame)]


def _after_update(traced: _Traced | None) -> AfterUpdate | None:
    """Return the recorder of a traced micro-batch's assignments, or None before its gradients have been computed."""
    return None if traced is None or not traced.applied.optimizers else traced.after


def _slices_in(traced: _Traced, batch: list[Any]) -> dict[int, TracedSlices]:
    """Return the sparse gradients of a traced micro-batch, keyed by number."""
    gradients = enumerate(g for call in traced.applied.gradients for g in call)
    return {number: TracedSlices(g.indices, batch) for number, g in gradients if isinstance(g, tf.IndexedSlices)}


def _outputs(traced: _Traced, logs: Any, slices: dict[int, TracedSlices]) -> MicroBatchOutputs:
    handed = traced.metrics.handed
    sizes = {str(number): each.sizes() for number, each in slices.items() if len(each.pieces) > 1}
    return MicroBatchOutputs(
        tf.nest.flatten(logs), traced.applied.gradients, sizes, traced.losses.divisors, traced.losses.terms,
        handed.values, handed.weights, handed.arguments,
    )  # fmt: skip


def _in_equal_parts(items: Sequence[Any], count: int) -> list[Sequence[Any]]:
    each = len(items) // count
    return [items[number * each : (number + 1) * each] for number in range(count)]


def python_of(step: Callable[..., Any]) -> Callable[..., Any]:
    """Return a `tf.function`'s Python function, converted by AutoGraph. Other functions are returned unchanged."""
    python = getattr(step, "python_function", None)
    if python is None:
        return step
    try:
        converted: Callable[..., Any] = tf.autograph.to_graph(python)
        return converted
    except Exception:  # AutoGraph cannot find the source of some functions
        return python  # type: ignore[no-any-return]


def _goes_with_batch(value: Any) -> bool:
    """True if a traced value has one entry per sample, that is, if its first dimension is unknown in the trace."""
    shape = tf.TensorShape(getattr(value, "shape", None))
    return bool(shape.rank) and shape[0] is None


def essence(error: BaseException) -> str:
    """Return the most informative line of an error message, for use in a one-line message."""
    text = str(getattr(error, "message", None) or error)
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("[[")]
    told = [line for line in lines if not line.startswith(_HEADINGS)]
    return f"{type(error).__name__}: {shortened(told[-1], 200)}" if told else type(error).__name__
