"""What a script may call itself: `oomph.guard` and `oomph.map_batches`."""
