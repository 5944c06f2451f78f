"""Describes a model's training step as a program for `oomph.planning`, in a stopped script process."""
