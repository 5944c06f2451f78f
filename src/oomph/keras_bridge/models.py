"""Keras models: their optimizers, the layer state beyond the variables that Keras lists, and XLA.

A layer that keeps additional arrays overrides `save_own_variables` and `load_own_variables`. This module calls the same
two methods.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import tensorflow as tf

from oomph.errors import ExamineError
from oomph.keras_bridge.batch.batches import without_optionals
from oomph.keras_bridge.code import is_users, set_by_libraries
from oomph.keras_bridge.dialects import dialect_of, root_of_keras_2
from oomph.keras_bridge.names.keras3 import KERAS
from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW
from oomph.protocol.replacements import UNGUARDED_KINDS


def is_of_keras_2(thing: Any) -> bool:
    """True for an object of Keras 2, which may be in use beside Keras 3 as tf_keras."""
    return root_of_keras_2(type(thing)) is not None


def require_compiled(model: Any) -> None:
    """Raise ExamineError unless this is a compiled model of Keras 3."""
    if is_of_keras_2(model):
        known = UNGUARDED_KINDS["keras-2"]
        raise ExamineError(f"the model is one of {known.what}, which oomph cannot examine: {known.instead}")
    if not getattr(model, "compiled", False):
        raise ExamineError("the model is not compiled")


def optimizers_of(model: Any) -> list[Any]:
    """Return a model's optimizers: the one it was compiled with, and any in its attributes."""
    found: list[Any] = []
    kinds = dialect_of(model).optimizers
    for value in [getattr(model, "optimizer", None), *vars(model).values()]:  # custom loops do not compile the model
        for one in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(one, kinds) and not any(one is known for known in found):
                found.append(one)
    return found


def optimizer_variables_of(model: Any) -> list[Any]:
    """Return the variables of a model's optimizers."""
    keras = dialect_of(model)
    return [variable for optimizer in optimizers_of(model) for variable in keras.variables_of(optimizer)]


def innermost(optimizer: Any) -> Any:
    """Return the optimizer inside a loss-scaling optimizer, or the optimizer itself."""
    return getattr(optimizer, "inner_optimizer", optimizer)


def learning_rate_of(optimizer: Any) -> float | None:
    """Return the current learning rate, or None if unknown, as with a custom optimizer."""
    rate: Any = KERAS.learning_rate.get(innermost(optimizer))
    return float(rate.numpy()) if hasattr(rate, "numpy") else None


def weights_of_each(model: Any) -> list[list[int]]:
    """Return the indices of each optimizer's weights in the model's variables, with −1 for a weight not among them."""
    places = {id(variable): place for place, variable in enumerate(model.variables)}
    return [
        [places.get(id(weight), -1) for weight in KERAS.optimizer_variables.of(one)] for one in optimizers_of(model)
    ]


def build_as_before(model: Any, weights: Sequence[Sequence[int]]) -> None:
    """Build the optimizers that have no variables yet, for the weights that `weights_of_each` returned.

    Without a trace, it is not known before the first step which optimizer trains which weights.
    """
    variables = model.variables
    for optimizer, own in zip(optimizers_of(model), weights, strict=False):
        if not optimizer.built and own and min(own) >= 0 and max(own) < len(variables):
            with model.distribute_strategy.scope():
                optimizer.build([variables[place] for place in own])


def build_for(model: Any, batch: Any) -> None:
    """Build a model and its metrics for batches like this one, or of this spec, as Keras' fit does under a strategy.

    Tracing cannot create the variables of layers and metrics there.
    """
    with model.distribute_strategy.scope():
        dialect_of(model).build(model, on_one_replica(without_optionals(batch)))


def on_one_replica(batch: Any) -> Any:
    """Return the first replica's part of a batch, or of a spec, that a strategy distributes."""
    return tf.nest.map_structure(_first_part, batch)


def _first_part(part: Any) -> Any:
    if isinstance(part, tf.distribute.DistributedValues):
        return part.values[0]
    return TENSORFLOW.spec_of_each_replica.get(part, (part,))[0]


_PLAIN = frozenset((bool, int, float, complex, str, bytes, type(None)))


@contextmanager
def calls_not_counted(model: Any) -> Iterator[None]:
    """Restore the layers' plain attribute values after the block, to undo the effects of any layer calls in it."""
    before = [
        (vars(layer), _plain_attributes(layer))
        for layer in KERAS.flatten_layers.call(model)
        if layer.built or not is_users(type(layer).build.__module__)  # a user's own build() sets some attributes
    ]
    try:
        yield
    finally:
        for attributes, values in before:
            attributes.update(values)


def _plain_attributes(layer: Any) -> dict[str, Any]:
    kind: Any = type(layer)
    theirs = set_by_libraries(kind) if not layer.built else frozenset()
    return {name: value for name, value in vars(layer).items() if type(value) in _PLAIN and name not in theirs}


def hidden_variables(model: Any) -> Iterator[tf.Variable]:
    """Yield the TensorFlow variables and random generators in layers' attributes, or in lists or dicts stored there."""
    for layer in KERAS.flatten_layers.call(model):
        for value in vars(layer).values():
            for thing in _items_of(value) if type(value) not in _PLAIN else ():
                kind: Any = type(thing)
                if _has_state(kind):
                    yield thing.state if isinstance(thing, tf.random.Generator) else thing


@functools.lru_cache(maxsize=4096)
def _has_state(kind: type) -> bool:
    return issubclass(kind, (tf.random.Generator, tf.Variable))


def own_arrays(model: Any, failed: Callable[[str], object]) -> dict[str, Any]:
    """Return the arrays that the user's layers save beyond their variables: "<layer number>/<their key>" → array.

    Args:
        failed: called for each layer whose method raises; the others are still saved.
    """
    arrays: dict[str, Any] = {}
    for number, layer in _that_save(model):
        try:
            saved: dict[str, Any] = {}
            layer.save_own_variables(saved)
            arrays |= {f"{number}/{key}": _as_array(saved[key]) for key in _extra(layer, saved)}
        except Exception as error:
            failed(f"layer {layer.name}: save_own_variables failed ({type(error).__name__}: {error})")
    return arrays


def give_back(model: Any, arrays: dict[str, Any]) -> None:
    """Make each layer load the arrays that it saved, once its variables are loaded."""
    for number, layer in _that_save(model):
        own = {key.partition("/")[2]: value for key, value in arrays.items() if key.partition("/")[0] == str(number)}
        if own:
            everything: dict[str, Any] = {}
            layer.save_own_variables(everything)
            layer.load_own_variables({key: own.get(key, _as_array(value)) for key, value in everything.items()})


def _that_save(model: Any) -> Iterator[tuple[int, Any]]:
    from keras import Layer

    for number, layer in enumerate(KERAS.flatten_layers.call(model)):
        kind = type(layer)
        if not kind.__module__.startswith("keras.") and kind.save_own_variables is not Layer.save_own_variables:
            yield number, layer


def _extra(layer: Any, saved: dict[str, Any]) -> list[str]:
    """Return the keys that a layer saved in addition to those that Keras uses for its variables."""
    usual = {
        str(i) for i in range(len(KERAS.trainable_variables.of(layer)) + len(KERAS.non_trainable_variables.of(layer)))
    }
    return [key for key in saved if key not in usual]


def _items_of(value: Any) -> list[Any]:
    kind = type(value)  # `isinstance` would consult the object, which may raise
    if issubclass(kind, dict):
        return list(dict.values(value))
    return list(value) if issubclass(kind, (list, tuple)) else [value]


def _as_array(value: Any) -> Any:
    return np.array(value.numpy() if hasattr(value, "numpy") else value)


_chosen: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()


def switch_off_xla(model: Any) -> None:
    """Make this model, which was just compiled, run without XLA."""
    _chosen[model] = model.jit_compile
    model.jit_compile = False


def script_chose_xla(model: Any) -> bool:
    """True if the script, or Keras on its behalf, chose to run this model with XLA."""
    return bool(_chosen.get(model, model.jit_compile))
