"""`oomph check`: finds mistakes in a training run before it starts. Pure: frozen facts in, findings out.

The facts come from `oomph.preflight.live`. Both run in the script's process, so this package needs only the standard
library.
"""
