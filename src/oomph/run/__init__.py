"""DURING a run: what is decided after a fault, and the process that carries it out. No TensorFlow here."""
