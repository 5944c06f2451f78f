"""Starts the workers of a gang on machines that a cluster hands out: `oomph run --engine`."""
