"""Examines tf.data pipelines: their stages, their length, and the elements they fail on."""
