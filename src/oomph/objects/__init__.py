"""Finds the Python objects that training depends on, and saves and restores what changes in them, without pickle.

Training has state beyond its variables: a callback's list, a closure behind a schedule, a counter in the script, a
dataset's random generator. `walk` finds every object reachable from the arguments of `fit`. A `Picture` records their
contents at one moment. Changes since a picture are encoded by type, and written back into the objects that a restarted
script has created. No user methods are called and no properties are read.
"""
