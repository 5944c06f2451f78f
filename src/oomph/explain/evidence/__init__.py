"""Evidence: one observed fact, and what tracebacks, memory maps and live exceptions say. Pure."""
