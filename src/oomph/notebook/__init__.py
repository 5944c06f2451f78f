"""Guards training in notebooks: in a running kernel, in a kernel that oomph supervises, or without any kernel.

Only `live` imports TensorFlow, and only code in the process that runs the cells imports IPython.
"""
