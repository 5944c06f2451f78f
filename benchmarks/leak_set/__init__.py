"""Labelled series of memory in use: what the leak detectors are measured on. See README.md here."""
