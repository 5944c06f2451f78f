"""Plans the memory that training needs, before anyone pays for a GPU: programs, allocators, batches, savers. Pure.

Runs in `oomph plan` itself, and in the script process that `oomph plan` stopped at a fit call.
"""
