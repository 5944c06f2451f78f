"""What TensorFlow's runtime says: its errors, its allocator, its waiting for memory."""
