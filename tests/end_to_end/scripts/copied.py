"""Converts an array that does not fit in memory to a tensor, both oomph's way and TensorFlow's: `copied.py`."""

import numpy as np
import tensorflow as tf

from oomph.keras_bridge.batch.batches import tensor_of

array = np.zeros((1 << 20, 16))
try:
    tensor_of(array)
except tf.errors.ResourceExhaustedError as error:
    print(type(error).__name__, "shape[1048576,16]" in str(error), flush=True)
tf.convert_to_tensor(array)
print("survived", flush=True)
