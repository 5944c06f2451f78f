"""The state of a training: variables, layers, optimizers, data iterators."""
