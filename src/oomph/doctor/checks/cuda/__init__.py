"""The CUDA libraries that win, and what compiles for the GPU."""
