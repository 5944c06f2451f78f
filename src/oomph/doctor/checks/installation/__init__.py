"""Python, TensorFlow, Keras and the wheels they came in."""
