"""PartStep: the user's own step, traced for one micro-batch. It assigns nothing but small state.

The step is not rewritten: while it is traced, a few functions of Keras that it calls are others. `optimizer.apply`
hands out the gradients (`applied.py`), losses are reduced for a part (`losses.py`), random numbers are the part's rows
of those of the whole batch (`draws.py`), and some metrics hand over what they are to be updated with (`metrics.py`).
"""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import nullcontext, redirect_stdout
from typing import Any, NamedTuple

import tensorflow as tf

from oomph.errors import UnsupportedError
from oomph.tensorflow import batches, draws
from oomph.tensorflow.applied import Applied, optimizers_of
from oomph.tensorflow.barrier import has_each_index_once
from oomph.tensorflow.frame import Frame
from oomph.tensorflow.losses import PartLosses
from oomph.tensorflow.metrics import Handed, PartMetrics
from oomph.tensorflow.written import written_slots

_HEADINGS = (
    "Graph execution error",
    "Detected at node",
    "Arguments received by",
    "Exception encountered",
    "File ",
    "•",
)


class PartOutputs(NamedTuple):
    """What one part returns; every field is a nest of tensors."""

    logs: list[Any]
    """The leaves of what the user's step returned."""
    gradients: list[list[Any]]
    """For each call of an optimizer, the gradients of its variables times the share of the part."""
    divisors: list[Any]
    terms: list[Any]
    values: list[Any]
    """Numbers that metrics are to be updated with, and their weights."""
    weights: list[Any]
    arguments: list[Any]
    """What foreign metrics are to be updated with."""


class PartStep:
    """The step of a model for micro-batches of any size.

    Args:
        model: a compiled Keras model.
        step: its `train_step`, or its `test_step`, which applies no optimizer.
        trains: whether the step has to apply one.
    """

    def __init__(self, model: Any, step: Callable[[Any], Any], trains: bool = True) -> None:
        self._model, self.trains = model, trains
        self._step = python_of(step)
        self.eagerly = bool(model.run_eagerly)
        self.reason = ""
        """Why parts can not stand for the batch, as far as the traced graph shows it; empty when they can."""
        self.applied: Applied | None = None
        self.losses = PartLosses(None)
        self.metrics = PartMetrics(model)
        self.structure: Any = None
        """The nest that the step returned."""
        self.sources: list[Any] = []
        """For each leaf of it the metric whose result it is, or None."""
        self.batched_logs: list[bool] = []
        """For each leaf whether it has an entry for each sample; the same for what metrics are given."""
        self.batched_values: list[bool] = []
        self.unique_gradients: set[int] = set()
        """The sparse gradients, by number, that have each index once."""
        self.batched_arguments: Any = []
        self._draws: list[bool] = []
        self.draws_from_hidden_state = False
        self.summed = False
        """Whether the step has been found to train on a sum over samples; see `take_for`."""
        self._spec: Any = None
        self._plain: Any = None
        self._jitted: Any = None
        self._divisors: Any = None

    def trace(self, batch: Any) -> None:
        """Trace the step for parts of batches like this one; raises UnsupportedError when that can not be done.

        A step that runs eagerly is traced as well, to see what it does; it goes on running eagerly.
        """
        spec = batches.general_spec(self._spec, batch)
        if spec == self._spec:
            return
        self._spec, self._divisors = spec, None
        signature = [*batches.tensors_of(spec), *Frame.specs()]
        untouched = tf.autograph.experimental.do_not_convert(self._run_flat)
        self._plain = tf.function(untouched, input_signature=signature)
        try:
            with redirect_stdout(io.StringIO()) if self.eagerly else nullcontext():
                concrete = self._plain.get_concrete_function()
        except Exception as error:
            raise UnsupportedError(f"the step can not be traced for parts of a batch ({essence(error)})") from error
        self._jitted = self._plain
        if self._model.jit_compile and not self.eagerly:
            self._jitted = tf.function(untouched, input_signature=signature, jit_compile=True)
        self.draws_from_hidden_state = draws.draws_from_hidden_state(concrete.graph)
        self.reason = self.reason or self._reason_in(concrete)
        gradients = [] if self.applied is None else [g for call in self.applied.gradients for g in call]
        self.unique_gradients = {number for number, g in enumerate(gradients) if has_each_index_once(g)}

    def take_for(self, summed: bool) -> None:
        """From now on take the loss of the step for a sum over samples, or a mean; it has to be traced again."""
        self.summed, self._spec, self.reason = summed, None, ""

    def __call__(self, part: Any, frame: Frame, compiled: bool = True) -> PartOutputs:
        """Run the step on one part; `compiled` False leaves XLA out."""
        if self.eagerly:
            outputs = self._run(part, frame)
            self._forget()
            return outputs
        function = self._jitted if compiled else self._plain
        traced: PartOutputs = function(*batches.tensors_of(part), *frame)
        return traced

    def divisors_of(self, batch: Any) -> Any:
        """The divisors of a whole batch; nothing of the step runs but what they need of it. float64 [K]."""
        if not self.losses.divisors:
            return ()
        if self._divisors is None:
            self._divisors = self._only_divisors()
        return [float(value) for value in self._divisors(*batches.tensors_of(batch))]

    def _forget(self) -> None:
        """Let go of the tensors of a part that ran eagerly."""
        assert self.applied is not None
        self.applied.gradients, self.metrics.handed = [], Handed()

    def _run_flat(self, *tensors: Any) -> PartOutputs:
        count = len(tensors) - len(Frame._fields)
        return self._run(batches.with_tensors(self._spec, list(tensors[:count])), Frame(*tensors[count:]))

    def _run(self, part: Any, frame: Frame, correct: bool = True) -> PartOutputs:
        self.losses, self.metrics = PartLosses(frame if correct else None), PartMetrics(self._model)
        self.applied = Applied(optimizers_of(self._model), frame, self.summed)
        with self.losses.replaced(), self.metrics.replaced(), self.applied.replaced():
            with draws.of_the_whole_batch(frame, batches.length_of(part), self._draws):
                logs = self._model.distribute_strategy.run(self._step, args=(part,))
        leaves = tf.nest.flatten(logs)
        self.structure, self.sources = logs, [self.metrics.source_of(leaf) for leaf in leaves]
        handed = self.metrics.handed
        if not tf.executing_eagerly():
            self.batched_logs = [_goes_with_batch(leaf) for leaf in leaves]
            self.batched_values = [_goes_with_batch(value) for value in handed.values]
            self.batched_arguments = tf.nest.map_structure(_goes_with_batch, handed.arguments)
        if self.trains:
            self.reason = self.reason or self.applied.reason()
        return PartOutputs(
            leaves, self.applied.gradients, self.losses.divisors, self.losses.terms,
            handed.values, handed.weights, handed.arguments,
        )  # fmt: skip

    def _only_divisors(self) -> Any:
        def run(*tensors: Any) -> list[Any]:
            whole = batches.with_tensors(self._spec, list(tensors))
            frame = Frame.of(0, 1, 1)._replace(whole=batches.length_of(whole))
            return self._run(whole, frame, correct=False).divisors

        kept = (self.losses, self.metrics, self.applied, self.structure, self.sources)
        wrapped = tf.compat.v1.wrap_function(run, batches.tensors_of(self._spec))
        self.losses, self.metrics, self.applied, self.structure, self.sources = kept
        count = len(batches.tensors_of(self._spec))
        return wrapped.prune(wrapped.inputs[:count], list(wrapped.structured_outputs))

    def _reason_in(self, concrete: Any) -> str:
        """What the graph shows: weights assigned by the step itself, or used after their update."""
        if not self.trains or self.applied is None:
            return ""
        weights = [v for optimizer in optimizers_of(self._model) for v in optimizer.variables]
        weights += list(self._model.trainable_variables)
        if len(written_slots(concrete, [])) != len(written_slots(concrete, weights)):
            return "the step assigns weights by itself"
        return self.applied.reads_after(concrete.graph, self._model)


def python_of(step: Callable[..., Any]) -> Callable[..., Any]:
    """The Python function of a `tf.function`, with the control flow that AutoGraph makes of it; others as they are."""
    python = getattr(step, "python_function", None)
    if python is None:
        return step
    try:
        converted: Callable[..., Any] = tf.autograph.to_graph(python)
        return converted
    except Exception:  # of AutoGraph, which has no source for some functions
        return python  # type: ignore[no-any-return]


def _goes_with_batch(value: Any) -> bool:
    """Whether a traced value has an entry for each sample: its first dimension is not known beforehand."""
    shape = tf.TensorShape(getattr(value, "shape", None))
    return bool(shape.rank) and shape[0] is None


def essence(error: BaseException) -> str:
    """The line of an error that says most, for a message of one line."""
    text = str(getattr(error, "message", None) or error)
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("[[")]
    told = [line for line in lines if not line.startswith(_HEADINGS)]
    return f"{type(error).__name__}: {told[-1][:200]}" if told else type(error).__name__
