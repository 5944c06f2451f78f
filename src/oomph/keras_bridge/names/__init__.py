"""The undocumented names of Keras and TensorFlow: two tables, and what is missing from the installed versions."""
