"""Changes to a compiled model for planning: another precision, another optimizer, frozen layers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from oomph.errors import ExamineError
from oomph.keras_bridge.names.keras3 import KERAS


def set_policy(model: Any, name: str) -> None:
    """Make all layers compute with another dtype policy; their weights stay as they are."""
    import keras

    try:
        policy = keras.dtype_policies.get(name)
    except (ValueError, TypeError) as error:
        raise ExamineError(f"--policy {name}: Keras knows no such policy") from error
    for layer in KERAS.flatten_layers.of(model)():
        layer.dtype_policy = policy


def set_optimizer(model: Any, name: str) -> None:
    """Give the model another optimizer of Keras, with its default settings.

    An optimizer belongs to the strategy in whose scope it is created.
    """
    import keras

    try:
        with model.distribute_strategy.scope():
            model.optimizer = keras.optimizers.get(name)
    except (ValueError, TypeError) as error:
        raise ExamineError(f"--optimizer {name}: Keras knows no such optimizer") from error


@contextmanager
def precision(model: Any, name: str) -> Iterator[None]:
    """Within the block, the model computes in another precision."""
    before = [(layer, layer.dtype_policy) for layer in KERAS.flatten_layers.of(model)()]
    try:
        set_policy(model, name)
        yield
    finally:
        for layer, policy in before:
            layer.dtype_policy = policy


@contextmanager
def optimizer(model: Any, name: str) -> Iterator[None]:
    """Within the block, the model has another optimizer, already built."""
    before = model.optimizer
    try:
        set_optimizer(model, name)
        with model.distribute_strategy.scope():
            model.optimizer.build(model.trainable_variables)
        yield
    finally:
        model.optimizer = before


@contextmanager
def frozen_but_head(model: Any) -> Iterator[str]:
    """Within the block, all layers are frozen except the last one with weights; yields the name of that layer."""
    layers = KERAS.flatten_layers.of(model)(include_self=False, recursive=False)
    trained = [layer for layer in layers if layer.trainable_weights]
    before, was = [(layer, layer.trainable) for layer in trained[:-1]], model.optimizer
    try:
        for layer, _ in before:
            layer.trainable = False
        with model.distribute_strategy.scope():
            model.optimizer = type(was).from_config(was.get_config())
            model.optimizer.build(model.trainable_variables)
        yield trained[-1].name if trained else ""
    finally:
        for layer, trainable in before:
            layer.trainable = trainable
        model.optimizer = was
