"""The journal of a run, with one JSON object per event. Several processes write it, and it is read as a stream."""
