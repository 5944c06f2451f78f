"""One step in micro-batches: gradients, losses, metrics and statistics, as if the batch had been whole."""
