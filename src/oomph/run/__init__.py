"""Supervises a run from its own process: decides what to do after a fault, and does it. Never imports TensorFlow."""
