"""Rules on the values of a sample of the data."""
