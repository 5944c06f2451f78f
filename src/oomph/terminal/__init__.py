"""Output to a terminal or its pipe: lines, colors, tables, progress. Both processes; standard library only."""
