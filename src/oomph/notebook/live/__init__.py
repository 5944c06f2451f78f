"""The part that runs beside TensorFlow, once the notebook has imported Keras."""
