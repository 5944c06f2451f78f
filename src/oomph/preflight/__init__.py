"""`oomph check`: what is wrong with a training before it begins. Pure: frozen facts in, findings out.

The facts come from `oomph.preflight.live`, which runs in the script's process. So does this package: it needs only
the standard library.
"""
