"""What to do after a fault. Pure: no clock, no process, no file."""
