"""What `oomph run` puts into the script's process: a sitecustomize, and a hook that waits for Keras.

Everything here fails open: whatever goes wrong in it costs one line on stderr, and the script runs on unguarded.
It runs at the start of every Python process below `oomph run`, so it imports little, and late.
"""
