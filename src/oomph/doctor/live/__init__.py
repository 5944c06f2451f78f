"""Trials of a device with TensorFlow, each in a separate process."""
