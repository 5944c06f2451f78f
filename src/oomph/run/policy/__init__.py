"""Decisions after a fault. Pure: no clock, process or file."""
