"""Gathers facts about the training call that the script reached, for the rules of `oomph.preflight`."""
