"""Hang detection: what the supervisor watches, and when it intervenes."""
