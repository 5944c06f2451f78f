"""Makes tensors that are far larger than what is done with them needs; with --batched, the same sum batch by batch."""

import sys

import tensorflow as tf

ROWS, COLUMNS = 40_000, 1_000


def at_once():
    """Return the sum of a table that is in memory as a whole, 160 MB of it."""
    for _ in range(2):
        table = tf.ones((ROWS, COLUMNS))
        total = tf.reduce_sum(table)
        del table  # frees the name; the memory returns when nothing refers to it any more
    return float(total)


def in_batches():
    """Return the same sum, with a thousand rows in memory at a time."""
    rows = tf.data.Dataset.range(ROWS).batch(1_000).map(lambda numbers: tf.ones((tf.size(numbers), COLUMNS)))
    return float(sum(tf.reduce_sum(part) for part in rows.prefetch(1)))


print("sum", in_batches() if "--batched" in sys.argv else at_once())
