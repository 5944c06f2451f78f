"""Where oomph meets Keras and TensorFlow: what is replaced, and what is only watched."""
