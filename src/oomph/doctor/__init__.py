"""`oomph doctor`: can this machine train, and if not, the one thing to do.

`observe` takes a Snapshot of the machine in a fraction of a second, without importing TensorFlow; the
checks, by subject in `checks`, are pure functions of it; `repairs` lists what environment variables alone can fix.
"""
