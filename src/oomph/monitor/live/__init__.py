"""Measures training from inside its process, and provides `oomph.Monitor`."""
