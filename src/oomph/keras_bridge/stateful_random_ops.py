"""Makes random operations draw from a count that checkpoints can store, not from state in TensorFlow's kernels.

`tf.random.normal` in a train step counts its draws in the kernel, where the count cannot be read and starts over in a
new process. The stateless operations compute the same numbers from a key and a counter. While a step is traced, each
stateful operation is replaced by the stateless one, with its seeds as the key and its count in a variable. The bits are
the same, and the count is saved and restored like any variable. A micro-batch draws its rows from the same variable.

Source: `GuardedPhiloxRandom::Init` in tensorflow/core/util/guarded_philox_random.cc (the seeds become the key and the
upper half of the counter), `ReserveRandomOutputs` in the same file (256 counts per output), `PhiloxRandomOp` in
tensorflow/core/kernels/random_op.cc, `RandomShuffle` in random_shuffle_op.cc in the same directory (one count for four
indices).

In a script without a seed, an eager operation gets one from the system, so a restarted script would draw different
numbers. It is replaced in the same way, with a key from the run (`protocol/entropy.py`); its count is saved along with
the states of the global generators.
"""

from __future__ import annotations

import functools
import hashlib
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import tensorflow as tf

from oomph.keras_bridge.graph import Slot
from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW
from oomph.keras_bridge.random_ops import STATEFUL, SlicedRandomOps
from oomph.keras_bridge.runtime.patching import patch, replaced, while_tracing
from oomph.process import undoing
from oomph.protocol.entropy import Here
from oomph.protocol.reasons import Reason, because

_PHILOX = 1
_COUNTS_PER_OUTPUT = 256
_OF_CONTROL_FLOW = ("CondBranchFuncGraph", "WhileBodyFuncGraph", "WhileCondFuncGraph")


class KeptRandomOps:
    """The draw counts of a step's random operations, in tracing order."""

    def __init__(self) -> None:
        self.variables: list[Any] = []
        """The state of each operation as int64 [3]: key, count, and upper half of the counter."""
        self._made: list[Any] = []
        """Variables of traces not kept yet: TensorFlow traces a function twice if the first trace creates variables."""
        self._to_come: list[Any] = []
        """Values restored from an earlier attempt, for operations that have not been traced yet."""

    def take(self, concrete: Any) -> None:
        """Keep the counts of a traced function that is going to run."""
        captured = {id(tensor) for tensor in concrete.captured_inputs}
        taken = [variable for variable in self._made if id(variable.handle) in captured]
        for variable, value in zip(taken, self._to_come, strict=False):
            variable.assign(value)
        self.variables += taken
        self._made, self._to_come = [], self._to_come[len(taken) :]

    def within(self, slots: Sequence[Slot]) -> list[Any]:
        """Return the counts among these variables: those of one trace, in tracing order."""
        handles = {id(slot.handle) for slot in slots}
        return [variable for variable in self.variables if id(variable.handle) in handles]

    def values(self) -> list[Any]:
        """Return the current state of each operation as an int64 [3] NumPy array."""
        return [variable.numpy() for variable in self.variables]

    def restore(self, values: list[Any]) -> None:
        """Continue from these values. Some of their operations may not have been traced yet."""
        for variable, value in zip(self.variables, values, strict=False):
            variable.assign(value)
        self._to_come = values[len(self.variables) :]

    @contextmanager
    def replaced(self) -> Iterator[None]:
        """Within the block, make random operations that are added to the graph being traced draw from variables."""
        graph = TENSORFLOW.default_graph.value()()
        with ExitStack() as undo:
            for op in TENSORFLOW.stateful_random_ops:
                drawn = self._instead(op.value(), DRAWS[op.name], graph)
                undo.enter_context(replaced(*op.place, drawn))
            yield

    def _instead(self, original: Callable[..., Any], draw: Callable[..., Any], graph: Any) -> Callable[..., Any]:
        def drawn(*args: Any, seed: int | None = 0, seed2: int | None = 0, name: Any = None, **named: Any) -> Any:
            if not _is_traced_into(graph):
                return original(*args, seed=seed, seed2=seed2, name=name, **named)
            try:
                return _drawn(self._counter(seed or 0, seed2 or 0), draw, args, named)
            except Exception:  # the kernel accepts more kinds of arguments, or reports the error itself
                return original(*args, seed=seed, seed2=seed2, name=name, **named)

        return drawn

    def _counter(self, seed: int, seed2: int) -> Any:
        """Create the variable of one operation. Without a seed, its key comes from the system, as in a kernel."""
        if (seed, seed2) == (0, 0):
            seed, seed2 = secrets.randbits(63), secrets.randbits(63)
        with tf.init_scope():  # bypasses a strategy: each replica draws for itself
            variable = TENSORFLOW.resource_variable.value()([seed, 0, seed2], dtype=tf.int64, trainable=False)
        self._made.append(variable)
        return variable


class SharedDraws:
    """The random operations of a traced micro-batch, of which the n-th draws from the count of the full step's n-th.

    Args:
        counts: the variables of the full step, in tracing order.
        rows: cuts the micro-batch's rows out of the numbers of the full batch.
    """

    def __init__(self, counts: Sequence[Any], rows: SlicedRandomOps) -> None:
        self._counts, self._rows = list(counts), rows
        self._graph = TENSORFLOW.default_graph.value()()

    @staticmethod
    @contextmanager
    def replaced(current: Callable[[], SharedDraws | None]) -> Iterator[None]:
        """Within the block, make random operations draw from the full step's counts.

        Args:
            current: returns the draws of the micro-batch that this thread is tracing, or None in other threads.
        """
        with ExitStack() as undo:
            for op in TENSORFLOW.stateful_random_ops:
                instead = functools.partial(_shared, op.name)
                undo.enter_context(replaced(*op.place, while_tracing(op.value(), current, instead)))
            yield

    def _draw(self, kind: str, args: Any, named: dict[str, Any]) -> Any:
        """Draw from the next count. Raises LookupError if there is none, or if the numbers have no rows."""
        if not self._counts or not _is_traced_into(self._graph):
            raise LookupError
        if kind == _SHUFFLE:
            del self._counts[0]
            raise LookupError
        values = _drawn(self._counts[0], DRAWS[kind], args, named, self._rows.counts_of_whole)
        del self._counts[0]
        return values


def _shared(kind: str, mine: SharedDraws, original: Any, *args: Any, **named: Any) -> Any:
    given = {key: value for key, value in named.items() if key not in ("seed", "seed2", "name")}
    try:
        return mine._draw(kind, args, given)
    except Exception:  # it draws from its kernel, and the step is not divided exactly
        return original(*args, **named)


def _drawn(
    variable: Any,
    draw: Callable[..., Any],
    args: Any,
    named: dict[str, Any],
    used: Callable[[Any], Any] = lambda counts: counts,
) -> Any:
    """Draw from the state in a variable, and advance its count by what `used` makes of the counts that were drawn."""
    state = variable.read_value()
    words = tf.bitcast(state, tf.uint64)
    values, counts = draw(words[:1], words[1:], *args, **named)
    zero = tf.constant(0, tf.int64)
    variable.assign(state + tf.stack([zero, used(counts), zero]))
    return values


def _is_traced_into(graph: Any) -> bool:
    """True if operations are being added to this graph, or to a branch or loop in it, but not to another function.

    A function that is called twice has two kernels, each with its own count.
    """
    current, func_graph = TENSORFLOW.default_graph.value()(), TENSORFLOW.func_graph.value()
    while current is not graph and isinstance(current, func_graph) and type(current).__name__ in _OF_CONTROL_FLOW:
        current = current.outer_graph
    return current is graph


def _outputs(values: Any) -> tuple[Any, Any]:
    return values, tf.size(values, tf.int64) * _COUNTS_PER_OUTPUT


def _stateless(name: str) -> Callable[..., Any]:
    return next(op.value() for op in TENSORFLOW.stateless_random_ops if op.name == name)  # type: ignore[no-any-return]


def _normal(key: Any, counter: Any, shape: Any, dtype: Any) -> tuple[Any, Any]:
    return _outputs(_stateless("stateless_random_normal_v2")(shape, key, counter, _PHILOX, dtype))


def _truncated(key: Any, counter: Any, shape: Any, dtype: Any) -> tuple[Any, Any]:
    return _outputs(_stateless("stateless_truncated_normal_v2")(shape, key, counter, _PHILOX, dtype))


def _uniform(key: Any, counter: Any, shape: Any, dtype: Any) -> tuple[Any, Any]:
    return _outputs(_stateless("stateless_random_uniform_v2")(shape, key, counter, _PHILOX, dtype))


def _uniform_int(key: Any, counter: Any, shape: Any, minval: Any, maxval: Any) -> tuple[Any, Any]:
    return _outputs(_stateless("stateless_random_uniform_int_v2")(shape, key, counter, _PHILOX, minval, maxval))


def _shuffle(key: Any, counter: Any, value: Any) -> tuple[Any, Any]:
    rows = tf.shape(value, tf.int64)[0]
    drawn = tf.where(rows > 1, (rows + 2) // 4, tf.zeros_like(rows))
    return TENSORFLOW.stateless_shuffle.value()(value, key, counter, _PHILOX), drawn


_SHUFFLE = "random_shuffle"
DRAWS: dict[str, Callable[..., Any]] = {
    "random_standard_normal": _normal,
    "truncated_normal": _truncated,
    "random_uniform": _uniform,
    "random_uniform_int": _uniform_int,
    _SHUFFLE: _shuffle,
}
"""Maps each operation to a function from (key [1], counter [2], the arguments) to (values, counts used)."""


class EagerRandomOps:
    """Replaces unseeded eager random operations in this process, and counts their draws."""

    def __init__(self, entropy: str) -> None:
        digest = hashlib.blake2b(f"{entropy} tensorflow".encode(), digest_size=16).digest()
        self._key, self._upper = (int.from_bytes(half, "little") for half in (digest[:8], digest[8:]))
        self._here = Here(os.getpid())
        self.count = 0
        """The count by which the draws so far have advanced the Philox counter."""

    def install(self) -> None:
        """Replace the operations. They behave as before unless they are called eagerly and without a seed."""
        for op in TENSORFLOW.stateful_random_ops:
            patch(*op.place, self._instead(op.value(), DRAWS[op.name]))

    def _instead(self, original: Callable[..., Any], draw: Callable[..., Any]) -> Callable[..., Any]:
        def drawn(*args: Any, seed: int | None = 0, seed2: int | None = 0, name: Any = None, **named: Any) -> Any:
            if seed or seed2 or not (self._here() and tf.executing_eagerly()):
                return original(*args, seed=seed, seed2=seed2, name=name, **named)
            try:
                key = tf.constant([self._key], tf.uint64)
                counter = tf.constant([self.count % (1 << 64), self._upper], tf.uint64)
                values, counts = draw(key, counter, *args, **named)
            except Exception:  # the kernel accepts more kinds of arguments, or reports the error itself
                return original(*args, seed=seed, seed2=seed2, name=name, **named)
            self.count += int(counts)
            return values

        return drawn


eager_draws: EagerRandomOps | None = None


def install_eager(entropy: str) -> None:
    """Replace the operations once per process; an empty `entropy` leaves them unchanged."""
    global eager_draws
    if entropy and eager_draws is None:
        eager_draws = EagerRandomOps(entropy)
        eager_draws.install()
        undoing.remember(_forget_eager)


def _forget_eager() -> None:
    global eager_draws
    eager_draws = None


_known: WeakKeyDictionary[Any, tuple[int, bool]] = WeakKeyDictionary()
"""The number of traces of each function examined, and True if any of them draws from state inside kernels."""


def functions_with_draws(functions: Iterable[Any]) -> list[Reason]:
    """Return a reason for each function that draws from state inside TensorFlow's kernels."""
    names = sorted({str(getattr(function, "__name__", "a function")) for function in functions if _draws(function)})
    return [because("draws-in-kernels", function=name) for name in names]


def _draws(function: Any) -> bool:
    try:
        traces = TENSORFLOW.traces.call(function)
        count, found = _known.get(function, (0, False))
        if count < len(traces) and not found:
            found = any(node.op in STATEFUL for trace in traces for node in _nodes(trace.graph.as_graph_def()))
            _known[function] = (len(traces), found)
        return found
    except Exception:  # this TensorFlow version may store traces differently
        return False


def _nodes(definition: Any) -> Iterator[Any]:
    yield from definition.node
    for function in definition.library.function:
        yield from function.node_def
