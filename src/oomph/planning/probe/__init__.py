"""What real steps on the GPU itself say: the peak at any batch size, the sizes worth running, and what is kept."""
