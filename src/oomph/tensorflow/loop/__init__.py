"""`oomph.steps`: a training loop of the script's own that can be resumed."""
