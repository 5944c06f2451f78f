"""One step in micro-batches: the same gradients, losses, metrics and statistics as with the full batch."""
