"""A training step compiled by XLA for a GPU, without that GPU: what it needs, and what it says of memory.

Needs the extra `oomph[xla]`. jax is imported in a process of its own only, never in that of the training.
"""
