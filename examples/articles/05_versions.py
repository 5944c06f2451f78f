"""Prints the versions that decide whether a GPU can be used, with the functions that exist."""

import keras
import tensorflow as tf

build = tf.sysconfig.get_build_info()
print("TensorFlow", tf.__version__, "Keras", keras.__version__)
print("built for CUDA", build.get("cuda_version", "none"), "and cuDNN", build.get("cudnn_version", "none"))
print("GPUs", tf.config.list_physical_devices("GPU"))
print("is_built_with_cudnn exists:", hasattr(tf.test, "is_built_with_cudnn"))
