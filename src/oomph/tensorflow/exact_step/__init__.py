"""The exact step: one training step that can run out of memory without losing anything."""
