"""Forms a gang of processes that a scheduler has started, each with its own `oomph run --engine env`.

The processes meet in the run directory, which all of them see. Nothing of oomph's listens on the network.
"""
