"""What is known of a training that is about to begin, as frozen values."""
