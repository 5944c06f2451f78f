"""Holds back what a step must not do before it is certain to succeed, then does it at once."""
