"""The `oomph run` process: it starts the script, judges how it ended, and restarts it."""
