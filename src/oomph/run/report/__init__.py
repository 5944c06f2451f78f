"""A run in words: its label, its summary, its story, its account, its remedies. Pure."""
