"""Answers cells that ask oomph: the words of `%oomph`, and `%%oomph isolate`."""
