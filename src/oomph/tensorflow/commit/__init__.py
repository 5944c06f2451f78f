"""What a step may not do before it is certain to succeed: held back, then done at once."""
