"""Facts about training that is about to start, as frozen values."""
