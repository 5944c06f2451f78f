"""What a cell can ask oomph for: the words of `%oomph`, and `%%oomph isolate`."""
