"""Describes a model's training step as a program for `oomph.planning`. Runs in a stopped script process."""
