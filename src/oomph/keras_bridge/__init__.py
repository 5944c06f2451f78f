"""Everything that imports TensorFlow or Keras. It runs inside the script's process, after the script imported them."""
