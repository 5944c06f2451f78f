"""Detects hangs: defines what the supervisor watches, and when it intervenes."""
