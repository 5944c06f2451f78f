"""Facts about a training that is about to begin, as frozen values."""
