"""Decides what to do after a fault. Pure: no clock, process or file."""
