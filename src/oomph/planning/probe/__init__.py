"""Real steps on the GPU: the peak at any batch size, the sizes worth running, and the records kept."""
