"""A training step compiled by XLA for a GPU, without that GPU: the step itself, and its memory.

Needs the extra `oomph[xla]`. jax is imported only in its own process, never in the training's.
"""
