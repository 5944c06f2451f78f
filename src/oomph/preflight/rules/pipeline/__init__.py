"""Rules on what the input pipeline costs the training, as it was measured."""
