"""`oomph watch`: the GPUs, the runs of this machine and what is wrong, as a live view, one document or a Prometheus endpoint."""
