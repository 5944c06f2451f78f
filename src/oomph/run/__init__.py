"""During a run: decides what to do after a fault, and carries it out in its own process. No TensorFlow here."""
