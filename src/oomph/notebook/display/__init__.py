"""Shows in a notebook's cells what oomph reports there, and keeps TensorFlow's reports of failed allocations out."""
