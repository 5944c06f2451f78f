"""Writes the file with which Slurm or Kubernetes starts a training on several machines and, after a fault, again."""
