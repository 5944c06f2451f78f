"""The journal of a run: one JSON object per event, written by several processes, read as a stream."""
