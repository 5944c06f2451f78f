"""`oomph watch`: the GPUs, and the runs of a folder with their problems; live, once, or for Prometheus."""
