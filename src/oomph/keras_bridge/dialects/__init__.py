"""The dialects: what the exact step does differently for models of Keras 3 and of Keras 2.

Both can live in one process, as `keras` and `tf_keras`. So nothing asks which Keras is installed, only which one a
model, an optimizer or a metric belongs to.
"""

from oomph.keras_bridge.dialects.dialect import Apply, Dialect, LossHooks
from oomph.keras_bridge.dialects.of_keras3 import KERAS_3
from oomph.keras_bridge.dialects.selection import dialect_of, keras_2, root_of_keras_2

__all__ = ["KERAS_3", "Apply", "Dialect", "LossHooks", "dialect_of", "keras_2", "root_of_keras_2"]
