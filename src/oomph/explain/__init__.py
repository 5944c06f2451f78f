"""Faults as data, and the pure function that names them from evidence."""
