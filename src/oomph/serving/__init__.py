"""Serves a few texts over HTTP: to this machine alone, unless the user asks for another address."""
