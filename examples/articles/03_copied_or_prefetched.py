"""Trains on pictures that are prepared one by one while the training waits; with --prefetched, ahead of time."""

import sys
import time

import keras
import numpy as np
import tensorflow as tf
from pictures import images, labels, network


def prepared(image):
    """Stand for work that takes a while: decoding, resizing, a slow disk."""
    time.sleep(0.002)
    return image


def prepare(image, label):
    return tf.ensure_shape(tf.numpy_function(prepared, [image], tf.float32), (8, 8, 1)), label


ahead = "--prefetched" in sys.argv
data = tf.data.Dataset.from_tensor_slices((images, labels.astype(np.int32)))
data = data.map(prepare, num_parallel_calls=16 if ahead else None).batch(64)
if ahead:
    data = data.cache().prefetch(tf.data.AUTOTUNE)
keras.utils.set_random_seed(1)
network().fit(data, epochs=6 if ahead else 2, verbose=0)
