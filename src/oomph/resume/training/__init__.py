"""The parts that fits and loops share: identity, provenance, data position, checkpoints, proof."""
