"""`oomph doctor`: checks whether this machine can train and, if not, says what to do first.

`observe` takes a Snapshot of the machine in a fraction of a second, without importing TensorFlow. The checks in
`checks`, grouped by subject, are pure functions of that snapshot. `repairs` lists the problems that environment
variables alone can fix.
"""
