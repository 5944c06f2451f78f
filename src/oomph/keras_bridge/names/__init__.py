"""The undocumented names in Keras and TensorFlow: two tables, and what the installed versions lack."""
