"""The CUDA libraries that the loader picks, and what compiles for the GPU."""
