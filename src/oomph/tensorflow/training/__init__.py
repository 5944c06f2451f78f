"""What a fit and a loop share: identity, provenance, position in the data, checkpoints, proof."""
