"""Prints lines, colours, tables and progress to a terminal or a pipe. Used in both processes; standard library only."""
