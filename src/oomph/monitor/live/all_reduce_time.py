"""Measures how long a worker waits for the others, where a step exchanges something with them.

A step waits at the all-reduce of its gradients: the time begins when all gradients of this worker are ready, and ends
when those of all workers are added up. It waits before, once this worker has its batch, until all workers have agreed
that there is one left. So it is what the exchanges take, plus the wait for the last worker, who does not wait. Other
reductions of a single value are left out: a loss is reduced while gradients are still computed, and its wait would be
counted twice.

XLA does not compile timestamps, so a step that XLA compiles is not measured.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from oomph.keras_bridge.names import support
from oomph.keras_bridge.names.row import Feature
from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW
from oomph.keras_bridge.runtime.patching import patch
from oomph.keras_bridge.workers import spans_workers
from oomph.monitor.live.traced_time import TracedTime, can_ask
from oomph.process import undoing

_traced = TracedTime("oomph_all_reduce")
_by_clock = 0.0
"""The time of all-reduces that were not traced."""
_installed = False


def listen() -> None:
    """Measure the all-reduces of functions that are traced from now on."""
    global _installed
    if _installed or support.lacks(Feature.ALL_REDUCE_TIME):
        return
    _installed = True
    undoing.remember(_forget)
    cls = TENSORFLOW.collective_all_reduce.value()
    name = TENSORFLOW.all_reduce_of_a_replica.name_on(cls)
    patch(cls, name, _measured(getattr(cls, name)))
    patch(*TENSORFLOW.agreement_on_data.place, _measured_agreement(TENSORFLOW.agreement_on_data.value()))


def seconds() -> float:
    """Return the time so far. Only differences are meaningful."""
    return _traced.read() + _by_clock


def _forget() -> None:
    global _installed
    _installed = False


def _measured(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def all_reduce(self: Any, reduce_op: Any, value: Any, replica_id: Any, options: Any) -> Any:
        def reduce() -> Any:
            return original(self, reduce_op, value, replica_id, options)

        if replica_id != 0 or len(tf.nest.flatten(value)) < 2:
            return reduce()
        return _with_a_clock(reduce) if tf.executing_eagerly() else _in_the_graph(reduce, value)

    return all_reduce


def _measured_agreement(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def replicas_with_values(strategy: Any, input_workers: Any, optionals: Any) -> Any:
        def agree() -> Any:
            return original(strategy, input_workers, optionals)

        if not spans_workers(strategy):
            return agree()
        return _with_a_clock(agree) if tf.executing_eagerly() else _in_the_graph(agree, optionals)

    return replicas_with_values


def _with_a_clock(reduce: Callable[[], Any]) -> Any:
    global _by_clock
    began = time.perf_counter()
    reduced = reduce()
    _by_clock += time.perf_counter() - began
    return reduced


def _in_the_graph(reduce: Callable[[], Any], value: Any) -> Any:
    """Trace an exchange of this value with a timestamp before and after it, or on its own if that fails."""
    try:
        is_compiled = TENSORFLOW.is_in_xla.value()(TENSORFLOW.default_graph.value()())
        began = None if is_compiled or not can_ask() else _traced.begin(_arrival(value))
    except Exception:
        began = None
    reduced = reduce()
    if began is not None:
        try:
            _traced.end(began, tf.nest.flatten(reduced, expand_composites=True))
        except Exception:
            pass  # it is not measured, but the script still receives its gradients
    return reduced


def _arrival(value: Any) -> list[Any]:
    """Return tensors on the CPU that exist once the whole value does: an operation on a GPU ends before its result."""
    parts: list[Any] = tf.nest.flatten(value, expand_composites=True)
    if parts[-1].dtype == tf.variant:  # a batch, which an iterator gives away only when it exists
        return parts
    with tf.control_dependencies(parts):
        last = tf.reshape(parts[-1], [-1])[:1]
    with tf.device("/CPU:0"):
        return [tf.identity(last)]
