"""The code that `oomph run` puts into the script process: a sitecustomize, and an import hook that waits for Keras.

Everything here fails open: an error prints one line to stderr, and the script runs unguarded. This code runs at the
start of every Python process under `oomph run`, so it imports little, and late.
"""
