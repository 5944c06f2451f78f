"""The random numbers of a step: reproduced, sliced, kept."""
