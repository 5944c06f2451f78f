"""Finds TensorFlow functions that draw random numbers from a state inside the kernels, which no checkpoint holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any
from weakref import WeakKeyDictionary

from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW
from oomph.keras_bridge.random_numbers.random_ops import STATEFUL
from oomph.protocol.reasons import Reason, because

_known: WeakKeyDictionary[Any, tuple[int, bool]] = WeakKeyDictionary()
"""For each function examined, the number of its traces, and True if one of them draws this way."""


def functions_with_draws(functions: Iterable[Any]) -> list[Reason]:
    """The functions that draw this way."""
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
    except Exception:  # from a TensorFlow version that stores traces differently
        return False


def _nodes(definition: Any) -> Iterator[Any]:
    yield from definition.node
    for function in definition.library.function:
        yield from function.node_def
