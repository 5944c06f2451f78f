"""Finds the Python objects around a training, and saves and restores what changes in them, without pickle.

A training holds state beyond its variables: a callback's list, a closure behind a schedule, a counter in the script,
the random generator of a dataset. `walk` finds every object reachable from what `fit` was given. A `Picture` records
their contents at one moment. Changes since a picture are encoded by type, and written back into the objects that a
restarted script has created. No user method is called and no property is read.
"""
