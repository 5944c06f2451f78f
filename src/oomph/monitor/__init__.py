"""Monitors the machine while a script trains: measures, stores, and finds faults.

A small separate process samples once a second (`sampler`), because the supervisor forks, and NVML does not work in a
process forked after NVML was initialised. It stores every sample (`store`), looks for faults in the latest ones
(`detection`, `detectors/`), and reports any it finds to its parent.
"""
