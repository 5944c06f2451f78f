"""Finds the Python objects around a training, and saves and restores what changes in them, without pickle.

A training holds state beyond its variables: a callback's list, a closure behind a schedule, a counter in the script,
the random generator of a data set. `walk` finds every object reachable from what `fit` was given. A `Picture` records
their contents at one moment. What has changed since a picture is encoded by type, and written back into the objects
that a restarted script has created. No user method is called and no property is read.
"""
