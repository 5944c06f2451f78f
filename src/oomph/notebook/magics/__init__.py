"""Implements the magics `%oomph WORD` and `%%oomph isolate`."""
