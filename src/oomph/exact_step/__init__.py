"""The exact step: divides a training step that runs out of memory, with the same result as the whole batch."""
