"""Public names of Keras and TensorFlow, with the releases that have them."""
