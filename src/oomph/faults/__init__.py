"""What can go wrong, as data, and the pure function that names it from what was observed."""
