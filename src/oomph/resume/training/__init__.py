"""Shared by fits and loops: identity, provenance, data position, checkpoints, proof."""
