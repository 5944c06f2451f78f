"""What is measured inside the training process, and `oomph.Monitor`."""
