"""The GPUs themselves: memory, health, clocks."""
