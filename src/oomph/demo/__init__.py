"""The demonstration: runs a training script with and without oomph, under conditions that kill it, and compares both.

scenario.py defines the runs, children.py runs them, live/weights.py compares two results (in a separate process, since
it needs NumPy), claims.py judges the measurements (pure functions), and show.py orders and prints them.
"""
