"""Reproduces, slices and keeps the random numbers of a step."""
