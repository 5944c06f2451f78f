"""`oomph.steps`: makes a custom training loop resumable."""
