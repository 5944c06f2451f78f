"""Examines tf.data pipelines: their stages, their length, and the elements that make them fail."""
