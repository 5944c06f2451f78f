"""The fault pages and NVIDIA's table of Xids, read as frozen values."""
