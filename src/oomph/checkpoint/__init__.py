"""The checkpoints of a run, and the witnesses that a resumed run is compared with.

Runs in the script process; the supervisor checks formats, sets refused checkpoints aside, and
deletes those that a finished run no longer needs. Standard library only.
"""
