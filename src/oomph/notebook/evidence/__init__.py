"""Keeps evidence while a kernel lives, from which the next kernel tells what killed it if nobody supervised it."""
