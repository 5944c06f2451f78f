"""Implements the `oomph run` process, which starts the script, judges how it ended, and restarts it."""
