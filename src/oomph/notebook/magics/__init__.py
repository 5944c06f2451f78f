"""Answers what cells ask oomph, with `%oomph WORD` or `%%oomph isolate`."""
