"""Has XLA compile a training step for a GPU, without that GPU.

Needs the extra `oomph[xla]`. jax is imported only in a separate process, never in the process that trains.
"""
