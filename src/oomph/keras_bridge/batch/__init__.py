"""A batch, and the micro-batches that it is split into."""
