"""The memory a training needs, before a GPU is paid for: programs of operations, allocators, batches, savers; pure.

Runs in `oomph plan`, and in the script process that it has stopped at a fit.
"""
