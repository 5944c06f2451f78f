"""Loop: what a custom training step uses, in the form in which the exact step knows a Keras model."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from oomph.tensorflow.graph.write_set import handles_of, written_slots
from oomph.tensorflow.names.keras3 import KERAS
from oomph.tensorflow.names.row import Global


class Loop:
    """Stands for the model of a step that is no model's `train_step`.

    The optimizers, metrics and layers that the step uses are found by what its traced graph writes.

    Args:
        step: the function that is to be guarded, in Python.
        batch: an example of its batched arguments.
        jit_compile: whether the step is compiled by XLA.
    """

    run_eagerly = False
    steps_per_execution = 1
    optimizer = None

    def __init__(self, step: Callable[[Any], Any], batch: Any, jit_compile: bool) -> None:
        self.jit_compile = jit_compile
        untouched = tf.autograph.experimental.do_not_convert(step)
        concrete = tf.function(untouched).get_concrete_function(batch)  # everything is created by now
        written = {id(slot.handle) for slot in written_slots(concrete, [])}
        self.optimizers = _that_write(written, KERAS.optimizer)
        inner = [optimizer.inner_optimizer for optimizer in self.optimizers if hasattr(optimizer, "inner_optimizer")]
        self.optimizers = [one for one in self.optimizers if not any(one is other for other in inner)]
        self.metrics = _that_write(written, KERAS.metric)
        self._layers = _that_write(written, KERAS.layer)

    @property
    def distribute_strategy(self) -> Any:
        """The strategy in whose scope the step is called."""
        return tf.distribute.get_strategy()

    @property
    def trainable_variables(self) -> list[Any]:
        """The weights of all optimizers."""
        return [variable for optimizer in self.optimizers for variable in KERAS.optimizer_variables.of(optimizer)]

    @property
    def non_trainable_variables(self) -> list[Any]:
        """What the layers that the step moves keep besides weights."""
        return [variable for layer in self._layers for variable in layer.non_trainable_variables]

    @property
    def metrics_variables(self) -> list[Any]:
        """Of the metrics that the step updates."""
        return [variable for metric in self.metrics for variable in metric.variables]

    def _flatten_layers(self) -> list[Any]:  # as a model of Keras calls it (`KERAS.flatten_layers`)
        return self._layers


def steps_before(optimizers: Sequence[Any], applied: bool) -> int:
    """How many steps of a loop its script had restored by itself when the first of this process was taken."""
    try:
        return max(0, max(int(optimizer.iterations) for optimizer in optimizers) - applied)
    except Exception:  # no optimizer of Keras', or its count cannot be read here
        return 0


def _that_write(written: set[int], kind: Global) -> list[Any]:
    """The living objects of a class of Keras with a variable among these, found through Python's garbage collector."""
    cls, found = kind.value(), []
    for thing in gc.get_objects():
        # Not isinstance, which asks the object for its class: a lazy proxy of the script's may do anything then.
        if issubclass(type(thing), cls) and not written.isdisjoint(handles_of(_variables(thing))):
            found.append(thing)
    return found


def _variables(thing: Any) -> list[Any]:
    try:
        return list(thing.variables)
    except Exception:  # half-made objects are among those that the collector knows
        return []
