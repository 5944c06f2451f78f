"""A run in words: its label, its summary, its account, its remedies. Pure."""
