"""The exact step: a training step that can run out of memory without losing anything."""
