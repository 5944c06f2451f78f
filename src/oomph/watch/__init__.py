"""`oomph watch`: the GPUs, the runs of a folder and what is wrong with them; live, once, or for Prometheus."""
