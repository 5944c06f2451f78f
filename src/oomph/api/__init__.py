"""The functions a script may call: `oomph.guard`, `steps`, `map_batches`, `check` and `plan`."""
