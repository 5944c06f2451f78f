"""The NVIDIA driver, and the devices that it shows."""
