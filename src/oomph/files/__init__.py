"""Opens and writes oomph's own files so that links, races and full disks do no harm. Standard library only."""
