"""Where oomph hooks into Keras and TensorFlow, in the script process: what is replaced, and what is only watched."""
