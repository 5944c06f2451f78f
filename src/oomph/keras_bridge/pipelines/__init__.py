"""Pipelines of tf.data as they were built: their stages, their length, what makes an element of them fail."""
