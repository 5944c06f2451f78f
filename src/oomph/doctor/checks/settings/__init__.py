"""Environment variables that TensorFlow, XLA and CUDA read."""
