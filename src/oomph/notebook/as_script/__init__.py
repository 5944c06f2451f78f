"""Runs a notebook as `oomph run` runs a script: its cells in one process, without a kernel."""
