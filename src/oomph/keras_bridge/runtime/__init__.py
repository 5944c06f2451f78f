"""Reads TensorFlow's runtime: its errors, its allocator, its waits for memory."""
