"""Loop: presents a custom training step's variables and objects to the exact step as if they were a Keras model."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from oomph.keras_bridge.graph import handles_of, written_slots
from oomph.keras_bridge.names.keras3 import KERAS
from oomph.keras_bridge.names.row import Global


class Loop:
    """Takes the place of the model if the step is not a model's `train_step`.

    The variables that the traced graph writes reveal which optimizers, metrics and layers the step uses.

    Args:
        step: the guarded Python function.
        batch: an example of the step's batched arguments.
        jit_compile: True if XLA compiles the step.
    """

    run_eagerly = False
    steps_per_execution = 1
    optimizer = None

    def __init__(self, step: Callable[[Any], Any], batch: Any, jit_compile: bool) -> None:
        self.jit_compile = jit_compile
        untouched = tf.autograph.experimental.do_not_convert(step)
        concrete = tf.function(untouched).get_concrete_function(batch)  # all objects exist by now
        written = {id(slot.handle) for slot in written_slots(concrete, [])}
        self.optimizers = _that_write(written, KERAS.optimizer)
        inner = [optimizer.inner_optimizer for optimizer in self.optimizers if hasattr(optimizer, "inner_optimizer")]
        self.optimizers = [one for one in self.optimizers if not any(one is other for other in inner)]
        self.metrics = _that_write(written, KERAS.metric)
        self._layers = _that_write(written, KERAS.layer)

    @property
    def distribute_strategy(self) -> Any:
        """The strategy of the scope that the step is called in."""
        return tf.distribute.get_strategy()

    @property
    def shared_by(self) -> Any:
        """The strategy whose replicas share each batch, or None if a step has the whole batch to itself."""
        values = [variable.value for variable in self.trainable_variables]
        known = (each.distribute_strategy for each in values if isinstance(each, tf.distribute.DistributedValues))
        return next((strategy for strategy in known if strategy.num_replicas_in_sync > 1), None)

    @property
    def trainable_variables(self) -> list[Any]:
        """The weights that all optimizers train."""
        return [variable for optimizer in self.optimizers for variable in KERAS.optimizer_variables.of(optimizer)]

    @property
    def non_trainable_variables(self) -> list[Any]:
        """The non-trainable variables of the layers that the step updates."""
        return [variable for layer in self._layers for variable in layer.non_trainable_variables]

    @property
    def metrics_variables(self) -> list[Any]:
        """The variables of the metrics that the step updates."""
        return [variable for metric in self.metrics for variable in metric.variables]

    def _flatten_layers(self) -> list[Any]:  # has the same name as in a Keras model (`KERAS.flatten_layers`)
        return self._layers


def steps_before(optimizers: Sequence[Any], applied: bool) -> int:
    """Return the step count that the script restored from its own checkpoint before this process started the loop."""
    try:
        return max(0, max(int(optimizer.iterations.numpy()) for optimizer in optimizers) - applied)
    except Exception:  # it isn't a Keras optimizer, or its step count cannot be read here
        return 0


def _that_write(written: set[int], kind: Global) -> list[Any]:
    """Find the live instances of a Keras class that own one of these variables, using the garbage collector."""
    cls, found = kind.value(), []
    for thing in gc.get_objects():
        # isinstance would read `__class__`, and a lazy proxy in the script might do anything then.
        if issubclass(type(thing), cls) and not written.isdisjoint(handles_of(_variables(thing))):
            found.append(thing)
    return found


def _variables(thing: Any) -> list[Any]:
    try:
        return list(thing.variables)
    except Exception:  # the collector also returns half-initialised objects
        return []
