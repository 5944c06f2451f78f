"""Gathers facts about a reached training call for the rules of `oomph.preflight`."""
