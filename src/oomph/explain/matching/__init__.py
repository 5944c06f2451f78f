"""From evidence to names: signatures first, then the last error, then the words. Pure."""
