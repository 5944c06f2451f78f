"""Describes a model's training step as a program for `oomph.memory`, in a script process that has been stopped."""
