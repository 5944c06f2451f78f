"""Guards training in notebooks: in a running kernel, in a kernel that oomph supervises, or without any kernel.

Nothing here imports TensorFlow, and only what runs in a kernel imports IPython.
"""
