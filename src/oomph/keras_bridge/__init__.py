"""Everything oomph knows about TensorFlow's and Keras' internals. Runs in the script's process, after their import."""
