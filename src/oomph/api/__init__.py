"""The functions that a script may call itself: `oomph.guard`, `oomph.steps` and `oomph.map_batches`."""
