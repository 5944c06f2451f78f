"""Implements `oomph.isolate`, which runs a function in its own process. Used in the caller's process and the child."""
