"""Describes a model's training step as a program for `oomph.plan`, in a script process that has been stopped."""
