"""`oomph.isolate`: runs a function in its own process. Runs in the caller's process and in the child."""
