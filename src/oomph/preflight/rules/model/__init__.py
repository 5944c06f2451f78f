"""Rules on the compiled model alone: losses, activations, layers, metrics, the optimizer."""
