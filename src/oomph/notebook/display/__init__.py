"""Shows oomph's reports in a notebook's cells, and keeps TensorFlow's reports of failed allocations out of them."""
