"""`oomph.isolate`: a function in a process of its own. In the caller's process, and in the child."""
