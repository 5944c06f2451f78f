"""One call of `model.fit`: its epochs, its checkpoints, how it is resumed or replayed."""
