"""The state of a fit or loop: variables, random numbers, data iterators, and nested Python values."""
