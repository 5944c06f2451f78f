"""The checkpoints of a run, and the witnesses that a resumed run is compared with.

Runs in the script process; the supervisor only checks formats. Standard library only.
"""
