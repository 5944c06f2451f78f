"""One step in micro-batches, with the same gradients, losses, metrics and statistics as the full batch."""
