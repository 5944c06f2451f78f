"""Makes random operations of a train step draw from a variable instead of a state inside TensorFlow's kernels.

`tf.random.normal` in a train step counts its draws in the kernel, where the count cannot be read, and starts over in a
new process. The stateless operations compute the same numbers from a key and a counter. While a step is traced, each
stateful operation is replaced by the stateless one, with its seeds as the key and its count in a variable. The bits are
the same, and the count is saved and restored like any variable.

Source: `GuardedPhiloxRandom::Init` in tensorflow/core/util/guarded_philox_random.cc (the seeds are the key, and the
upper half of the counter), `ReserveRandomOutputs` there (256 counts to an output), `PhiloxRandomOp` in
tensorflow/core/kernels/random_op.cc, `RandomShuffle` in random_shuffle_op.cc beside it (a count for four indices).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import tensorflow as tf

from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW
from oomph.keras_bridge.runtime.patching import replaced

_PHILOX = 1
_COUNTS_PER_OUTPUT = 256
_OF_CONTROL_FLOW = ("CondBranchFuncGraph", "WhileBodyFuncGraph", "WhileCondFuncGraph")


class KeptRandomOps:
    """The counts of the random operations of one step, in tracing order."""

    def __init__(self) -> None:
        self.variables: list[Any] = []
        """The state of each operation, int64 [3]: key, count, upper half of the counter."""
        self._made: list[Any] = []
        """Variables of traces not taken yet: TensorFlow traces a function twice if the first creates variables."""
        self._to_come: list[Any] = []
        """Values restored from an earlier attempt, for operations not traced yet."""

    def take(self, concrete: Any) -> None:
        """Keep the counts of a traced function that will be run."""
        captured = {id(tensor) for tensor in concrete.captured_inputs}
        taken = [variable for variable in self._made if id(variable.handle) in captured]
        for variable, value in zip(taken, self._to_come, strict=False):
            variable.assign(value)
        self.variables += taken
        self._made, self._to_come = [], self._to_come[len(taken) :]

    def values(self) -> list[Any]:
        """The current state of each operation: int64 [3] NumPy arrays."""
        return [variable.numpy() for variable in self.variables]

    def restore(self, values: list[Any]) -> None:
        """Continue from these values. Some of their operations may not be traced yet."""
        for variable, value in zip(self.variables, values, strict=False):
            variable.assign(value)
        self._to_come = values[len(self.variables) :]

    @contextmanager
    def replaced(self) -> Iterator[None]:
        """Within the block, random operations added to the graph being traced draw from variables."""
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
            variable = self._counter(seed or 0, seed2 or 0)
            state = variable.read_value()
            words = tf.bitcast(state, tf.uint64)
            try:
                values, counts = draw(words[:1], words[1:], *args, **named)
            except Exception:  # the kernel accepts more kinds of arguments, and reports errors in the others
                return original(*args, seed=seed, seed2=seed2, name=name, **named)
            variable.assign(state + tf.stack([tf.constant(0, tf.int64), counts, tf.constant(0, tf.int64)]))
            return values

        return drawn

    def _counter(self, seed: int, seed2: int) -> Any:
        """The variable of one operation. Without a seed, its key comes from the system, as in a kernel."""
        if (seed, seed2) == (0, 0):
            seed, seed2 = secrets.randbits(63), secrets.randbits(63)
        with tf.init_scope():  # bypasses a strategy: each replica draws for itself
            variable = TENSORFLOW.resource_variable.value()([seed, 0, seed2], dtype=tf.int64, trainable=False)
        self._made.append(variable)
        return variable


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


DRAWS: dict[str, Callable[..., Any]] = {
    "random_standard_normal": _normal,
    "truncated_normal": _truncated,
    "random_uniform": _uniform,
    "random_uniform_int": _uniform_int,
    "random_shuffle": _shuffle,
}
"""For each operation, a function from (key [1], counter [2], the arguments) to (values, counts used)."""
