"""The Python objects around a training: what of them changes, saved and given back without pickle.

A training holds state in more places than its variables: a callback's list, a closure behind a schedule, a counter in
the script, the random generator of a data set. `walk` finds what can be reached from what was given to `fit`; a
`Picture` is what it was like at one moment; what has changed since a picture is encoded by type, and put back into the
objects that a restarted script has made anew. No method of the user's is called and no property is read.
"""
