"""`oomph check`: what is wrong with a training before it begins. Pure: frozen facts in, findings out.

The facts come from `oomph.preflight.live`. Both run in the script's process, so this package needs only the standard
library.
"""
