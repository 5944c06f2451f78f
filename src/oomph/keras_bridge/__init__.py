"""What oomph knows of the insides of TensorFlow and Keras, in the script's process, after the script imported them."""
