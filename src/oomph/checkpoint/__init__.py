"""The checkpoints of a run, and the witnesses that a resumed run is compared with.

Runs in the script process; the supervisor checks formats, sets a refused checkpoint aside, and
deletes what a finished run no longer needs. Standard library only.
"""
