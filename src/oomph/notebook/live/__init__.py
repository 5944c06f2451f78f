"""Guards Keras in the notebook's process, once the notebook has imported it."""
