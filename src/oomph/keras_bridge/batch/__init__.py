"""A batch and its micro-batches."""
