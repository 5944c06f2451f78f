"""A call to `model.fit`: its epochs and checkpoints, and how it is resumed or replayed."""
