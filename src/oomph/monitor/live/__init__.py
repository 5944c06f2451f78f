"""Measurements inside the training process, and `oomph.Monitor`."""
