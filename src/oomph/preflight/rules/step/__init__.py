"""Rules on what a few tried steps showed."""
