"""The NVIDIA driver and what it shows of the devices."""
