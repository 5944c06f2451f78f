"""Monitors TensorFlow's runtime: its errors, its allocator, and its waits for memory."""
