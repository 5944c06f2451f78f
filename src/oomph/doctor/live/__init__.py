"""Tries out devices with TensorFlow, in separate processes."""
