"""Describes a model's training step as a program for `oomph.planning`, in a script process that has been stopped."""
