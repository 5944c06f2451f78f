"""Found before the installed package, so that Keras, which imports it only if available, works without it."""

raise ModuleNotFoundError(f"No module named {__name__!r}", name=__name__)
