"""Applies a network to all pictures, in batches that may be too large; with --by-hand, halves them and starts again."""

import sys

import keras
import numpy as np
import tensorflow as tf
from pictures import images, network

import oomph

keras.utils.set_random_seed(1)
model = network()
seen = 0


def features_of(batch):
    global seen
    features = model(batch).numpy()
    seen += len(batch)
    return features


def by_hand(batch_size):
    """Return the features of all pictures, as in the article: starts from the beginning after each error."""
    try:
        return [features_of(batch) for batch in tf.data.Dataset.from_tensor_slices(images).batch(batch_size)]
    except tf.errors.ResourceExhaustedError:
        return by_hand(batch_size // 2)


LARGE = 1_536
features = by_hand(LARGE) if "--by-hand" in sys.argv else list(oomph.map_batches(features_of, images, LARGE))
print(f"{len(np.concatenate(features))} results, {seen} pictures computed, sum {np.concatenate(features).sum():.3f}")
