"""A batch for several replicas is taken apart and reassembled; oomph works outside the script's scope."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
import tensorflow as tf

from oomph.keras_bridge.batch.replicas import Replicas, cuts, outside_strategy_scope


@pytest.fixture(params=["no strategy", "mirrored"])
def replicas(request):
    made = tf.distribute.MirroredStrategy(["CPU:0"]) if request.param == "mirrored" else tf.distribute.get_strategy()
    return Replicas(made)


def test_reassembled_local_values_are_unchanged(replicas):
    batch = ({"x": tf.ones((3, 2)), "none": None}, [tf.constant([1, 2, 3])])
    (own,) = replicas.local(batch)
    assert own[0]["none"] is None
    (again,) = replicas.local(replicas.together([own]))
    tf.nest.map_structure(lambda a, b: None if a is None else np.testing.assert_array_equal(a, b), batch, again)
    assert (replicas.count, replicas.sizes(batch), replicas.size(batch)) == (1, [3], 3)


def test_batch_size_is_unknown_if_replica_tensors_disagree(replicas):
    assert replicas.sizes((tf.ones((3, 2)), tf.ones(2))) is None
    assert replicas.size((tf.ones((3, 2)), tf.ones(2))) is None


def test_a_function_runs_in_every_replica_with_its_own_arguments(replicas):
    seen = []

    def double(values, other):
        seen.append("a replica")
        return {"twice": [2 * values, other]}

    (result,) = replicas.run(double, [tf.constant([1.0, 2.0])], [tf.constant(5)])
    assert result["twice"][0].numpy().tolist() == [2.0, 4.0]
    assert int(result["twice"][1]) == 5
    assert seen == ["a replica"]


@pytest.mark.parametrize(
    ("sizes", "parts"),
    [([16], [6, 6, 4]), ([16, 16], [5, 5, 5, 1]), ([16, 4], [6, 6, 4]), ([8, 0], [3, 3, 2]), ([4, 7], [7])],
)
def test_cuts_cover_every_replica_sample_exactly_once(sizes, parts):
    starts = np.cumsum([0, *parts[:-1]])
    taken = [cuts(sizes, int(start), part) for start, part in zip(starts, parts, strict=True)]
    for replica, size in enumerate(sizes):
        places = [place[replica] for place in taken]
        assert [sample for first, stop in places for sample in range(first, stop)] == list(range(size))
    assert [stop - first for first, stop in (place[int(np.argmax(sizes))] for place in taken)] == parts


def test_replica_with_fewer_samples_contributes_to_every_part():
    """A replica that ran out of samples early would average over none."""
    shares = [cuts([16, 8], start, 4) for start in (0, 4, 8, 12)]
    assert shares == [[(0, 4), (0, 2)], [(4, 8), (2, 4)], [(8, 12), (4, 6)], [(12, 16), (6, 8)]]


def strategy_of(kind: str):
    if kind == "mirrored":
        return tf.distribute.MirroredStrategy(["CPU:0"])
    return tf.distribute.OneDeviceStrategy("CPU:0") if kind == "one device" else tf.distribute.get_strategy()


def is_distributed(variable) -> bool:
    return isinstance(variable, tf.distribute.DistributedValues)


@pytest.mark.parametrize("kind", ["mirrored", "one device", "default"])
@pytest.mark.parametrize("nested", [False, True])
def test_variables_are_redistributed_after_the_block(kind, nested):
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
