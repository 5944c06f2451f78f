"""The checkpoints of a run, and the witnesses that a resumed run is compared with. Standard library only."""
