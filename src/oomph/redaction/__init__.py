"""Removes keys and passwords from everything that is written or shown. Both processes; standard library only."""
