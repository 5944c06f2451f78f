"""Everything oomph knows about TensorFlow's and Keras' internals. Used in the script's process once it imports them."""
