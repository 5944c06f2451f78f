"""Evidence: one observed fact, and the content of tracebacks, memory maps and live exceptions. Pure."""
