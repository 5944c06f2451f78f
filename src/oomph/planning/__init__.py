"""Plans the memory of a training before a GPU is paid for: programs, allocators, batches, savers. Pure.

Runs in `oomph plan`, and in the script process that `oomph plan` stopped at a fit.
"""
