"""What `oomph check` sees of a training that was reached: its facts, for the rules of `oomph.preflight`."""
