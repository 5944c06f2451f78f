"""The exact step: a training step that runs out of memory is divided, and gives the result of the whole batch."""
