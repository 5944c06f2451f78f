"""Rules on shapes and types: the elements of the data against the inputs and outputs of the model."""
