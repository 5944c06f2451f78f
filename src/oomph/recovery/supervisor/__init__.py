"""The process that `oomph run` is: it starts the script, judges how it ended, and starts it again."""
