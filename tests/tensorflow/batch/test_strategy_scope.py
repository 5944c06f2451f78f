"""Whatever scope the script calls from, oomph makes plain variables, and the script's scope is as it was afterwards."""

from __future__ import annotations

import contextlib

import pytest
import tensorflow as tf

from oomph.keras_bridge.batch.replicas import outside_strategy_scope


def strategy_of(kind: str):
    if kind == "mirrored":
        return tf.distribute.MirroredStrategy(["CPU:0"])
    return tf.distribute.OneDeviceStrategy("CPU:0") if kind == "one device" else tf.distribute.get_strategy()


def is_distributed(variable) -> bool:
    return isinstance(variable, tf.distribute.DistributedValues)


@pytest.mark.parametrize("kind", ["mirrored", "one device", "default"])
@pytest.mark.parametrize("nested", [False, True])
def test_variables_are_distributed_again_after_the_block(kind, nested):
    strategy = strategy_of(kind)
    with strategy.scope(), strategy.scope() if nested else contextlib.nullcontext():
        before = tf.distribute.get_strategy()
        with contextlib.suppress(InterruptedError), outside_strategy_scope():
            assert not tf.distribute.has_strategy()
            assert not is_distributed(tf.Variable(1.0))
            with strategy.scope():
                assert is_distributed(tf.Variable(1.0)) == (kind == "mirrored")
            raise InterruptedError
        assert tf.distribute.get_strategy() is before
        assert is_distributed(tf.Variable(1.0)) == (kind == "mirrored")
    assert not tf.distribute.has_strategy()
    assert not is_distributed(tf.Variable(1.0))


def test_a_mirrored_variable_has_a_handle_only_outside_its_strategy_scope():
    with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
        variable = tf.Variable(1.0)
        with pytest.raises(ValueError, match="not available outside the replica context"):
            _ = variable.handle
        with outside_strategy_scope():
            assert variable.handle.dtype == tf.resource


def test_a_replica_keeps_its_strategy_scope():
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])

    @tf.function
    def run():
        def replica():
            with outside_strategy_scope():
                return tf.constant(tf.distribute.get_strategy() is strategy)

        return strategy.run(replica)

    assert bool(run())
