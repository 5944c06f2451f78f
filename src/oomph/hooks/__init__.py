"""Hooks into Keras and TensorFlow, in the script process: some replace functions, others only watch."""
