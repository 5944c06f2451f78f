"""Facts that `oomph check` gathers about a training that was reached, for the rules of `oomph.preflight`."""
