"""A batch, and the micro-batches that it is cut into."""
