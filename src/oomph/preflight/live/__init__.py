"""Gathers the facts about a reached training, for the rules of `oomph.preflight`."""
