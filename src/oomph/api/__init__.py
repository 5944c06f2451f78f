"""The functions that a script can call: `oomph.guard`, `steps`, `map_batches`, `check` and `plan`."""
