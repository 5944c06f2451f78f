"""`oomph watch`: shows the GPUs and the runs in a folder, with their problems, live, once, or for Prometheus."""
