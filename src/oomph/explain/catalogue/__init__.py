"""Reads the fault pages and NVIDIA's table of Xids as frozen values."""
