"""Describes a run in words: its label, summary, story, account and remedies. Pure."""
