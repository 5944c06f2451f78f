"""The demonstration: runs a training with and without oomph, under conditions that kill it, and compares them.

scenario.py defines the runs, children.py runs them, live/weights.py compares two results (in its own process, since it
needs NumPy), claims.py judges the measurements (pure), show.py orders and prints them.
"""
