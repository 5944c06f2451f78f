"""Found before the installed package, and as good as not installed: what Keras imports only where it is there."""

raise ModuleNotFoundError(f"No module named {__name__!r}", name=__name__)
