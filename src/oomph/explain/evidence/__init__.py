"""Evidence: observed facts, and what tracebacks, memory maps and live exceptions contain. Pure."""
