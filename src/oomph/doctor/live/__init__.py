"""Trials of a device with TensorFlow, each in a process of its own."""
